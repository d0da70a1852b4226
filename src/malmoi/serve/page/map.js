// Map: a corpus laid out flat, near in meaning is near on the page, with its groups and their words.

import { post } from "./api.js";
import { COLOURS, command, fill, gap, h } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

export function draw(panel, info, values, link) {
  if (!info.corpora.length) {
    fill(panel, h("h1", {}, t("mapTitle")), h("div", { class: "notice stack" }, h("p", {}, t("noCorpus")), command("malmoi serve --corpus docs.malmoi")));
    return;
  }
  let corpus = info.corpora.some((one) => one.name === values.corpus) ? values.corpus : info.corpora[0].name;
  const out = h("div", {}, h("p", { class: "status" }, t("working")));
  const run = async (group) => {
    try {
      fill(out, view(await post("/v1/map", { corpus }), group, (chosen) => link({ corpus, group: chosen === null ? "" : String(chosen) })));
    } catch (error) {
      if (error.name !== "AbortError") fill(out, problem(error));
    }
  };
  const select = info.corpora.length > 1
    ? h("p", {}, h("select", { "aria-label": t("corpus"), onchange: (event) => { corpus = event.target.value; link({ corpus }); run(null); } }, info.corpora.map((one) => h("option", { value: one.name, selected: one.name === corpus }, one.name))))
    : null;
  fill(panel, h("h1", {}, t("mapTitle")), h("p", { class: "lead" }, t("mapLead")), select, out);
  run(/^\d+$/.test(values.group ?? "") ? Number(values.group) : null);
}

function view(found, group, chosen) {
  if (found.points.length < 2) return h("p", { class: "empty" }, t("mapEmpty"));
  const reading = h("section", { class: "card", "aria-live": "polite" });
  const dots = [];
  const buttons = [];
  let current = group !== null && group < found.groups.length ? group : null;
  const show = (to) => {
    current = to;
    chosen(to);
    dots.forEach((dot, i) => dot.classList.toggle("dim", to !== null && found.points[i].group !== to));
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === to)));
    if (to === null) fill(reading, h("h2", {}, t("mapRead")), h("p", { class: "soft" }, t("mapHelp")));
    else fill(reading, h("h2", {}, name(found.groups[to])), h("ul", {}, found.points.filter((one) => one.group === to).slice(0, 40).map((one) => h("li", {}, one.text))));
  };
  const tell = (point) => fill(reading, h("h2", {}, name(found.groups[point.group])), h("p", { class: "text" }, point.text), gap(), h("p", { class: "small soft" }, t("mapNear")),
    h("ul", {}, near(point, found.points).map((one) => h("li", {}, one.text))));
  const [wide, high] = [640, 480];
  found.points.forEach((point, i) => {
    dots[i] = h("circle", {
      class: "dot", r: found.points.length > 400 ? 4 : 7, cx: wide / 2 + point.x * (wide / 2 - 16), cy: high / 2 - point.y * (high / 2 - 16),
      fill: COLOURS[point.group % COLOURS.length], onmouseenter: () => tell(point), onclick: () => tell(point),
    }, h("title", {}, point.text));
  });
  found.groups.forEach((one, i) => {
    buttons[i] = h("button", { type: "button", "aria-pressed": "false", onclick: () => show(current === i ? null : i) },
      h("i", { color: COLOURS[i % COLOURS.length] }), h("span", {}, name(one), " ", h("span", { class: "soft small" }, t("documents", one.size))));
  });
  const made = h("div", { class: "columns" },
    h("div", {}, h("section", { class: "card" }, h("svg", { class: "plot", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": t("mapTitle") }, dots),
      found.shown < found.documents ? h("p", { class: "small soft" }, t("mapPart", found.shown.toLocaleString(), found.documents.toLocaleString())) : null), gap(), reading),
    h("section", { class: "card" }, h("h2", {}, t("groups")), gap(), h("ul", { class: "legend" }, buttons.map((button) => h("li", {}, button)))));
  show(current);
  return made;
}

const name = (group) => group.words.join(" · ") || t("group");

function near(point, points) {
  return points.filter((one) => one !== point)
    .sort((a, b) => Math.hypot(a.x - point.x, a.y - point.y) - Math.hypot(b.x - point.x, b.y - point.y)).slice(0, 4);
}
