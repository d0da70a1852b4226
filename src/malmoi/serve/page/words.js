// Words: the same word in several sentences, as each layer of the model sees it.

import { post } from "./api.js";
import { heatTable, scale } from "./compare.js";
import { COLOURS, fill, gap, h } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

const SAMPLE = ["배를 타고 바다에 나간다", "배가 항구에 들어왔다", "배가 달고 맛있다", "배를 깎아 먹었다", "배가 아파서 병원에 갔다", "배가 불러서 더 못 먹겠다"];

export function draw(panel, info, values, link) {
  if (!info.layers) {
    fill(panel, h("h1", {}, t("wordsTitle")), h("div", { class: "notice" }, h("p", {}, t("noLayers")), h("p", { class: "number" }, "malmoi model export … --layers all")));
    return;
  }
  const top = info.layers - 1;
  const given = Number.parseInt(values.layer ?? "", 10);
  let layer = given >= 0 && given <= top ? given : top;
  const area = h("textarea", { id: "sentences", rows: "6", value: values.q ?? "", placeholder: t("wordsPlaceholder"), spellcheck: "false" });
  const word = h("input", { id: "word", type: "text", value: values.word ?? "", placeholder: "배", autocomplete: "off" });
  const shown = h("output", { for: "layer", class: "number" }, `${layer} / ${top}`);
  const slider = h("input", { id: "layer", type: "range", min: "0", max: String(top), step: "1", value: String(layer), oninput: (event) => {
    layer = Number(event.target.value);
    shown.textContent = `${layer} / ${top}`;
    if (area.value.trim()) run(false);
  } });
  const out = h("div", { class: "out", "aria-live": "polite" });
  const run = async (say = true) => {
    const texts = area.value.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, 32);
    link({ q: texts.join("\n"), word: word.value.trim(), layer: String(layer) });
    if (!texts.length) return fill(out, h("p", { class: "empty" }, t("wordsEmpty")));
    if (say) fill(out, h("p", { class: "status" }, t("working")));
    try {
      const found = await post("/v1/words", { texts, word: word.value.trim() || null, layer });
      fill(out, result(texts, found, (chosen) => { word.value = chosen; run(); }));
    } catch (error) {
      if (error.name !== "AbortError") fill(out, problem(error));
    }
  };
  fill(panel, h("h1", {}, t("wordsTitle")), h("p", { class: "lead" }, t("wordsLead")),
    h("form", { class: "card stack", onsubmit: (event) => { event.preventDefault(); run(); } },
      h("label", { for: "sentences" }, t("compareLabel")), area,
      h("div", { class: "row" },
        h("div", { class: "grow" }, h("label", { for: "word" }, t("wordLabel")), word),
        h("div", { class: "grow" }, h("label", { for: "layer" }, t("layer"), " "), shown, slider, h("p", { class: "small soft" }, t("layerHelp")))),
      h("div", { class: "row" },
        h("button", { class: "primary", type: "submit" }, t("wordsRun")),
        h("button", { class: "quiet", type: "button", onclick: () => { area.value = SAMPLE.join("\n"); word.value = "배"; run(); } }, t("sample")))),
    out);
  if (values.q) run();
  else fill(out, h("p", { class: "empty" }, t("wordsEmpty")));
}

function result(texts, found, choose) {
  const cut = h("section", { class: "card" }, h("h2", {}, t("wordsCut")), h("p", { class: "small soft" }, t("wordsCutHelp")),
    h("ol", { class: "words" }, found.texts.map((own, i) => h("li", {}, own.map((one) => {
      const chosen = found.occurrences.some((place) => place.text === i && place.start === one.start);
      return h("button", { type: "button", class: chosen ? "word chosen" : "word", title: one.pieces.join(" "), onclick: () => choose(one.word) }, one.word);
    })))));
  if (found.occurrences.length < 2) return [h("p", { class: "notice warm" }, t("wordOnce")), gap(), cut];
  const labels = found.occurrences.map((place) => `${place.word} · ${texts[place.text]}`);
  return [h("div", { class: "columns" },
    h("section", { class: "card" }, h("h2", {}, t("occurrences", found.layer)), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("heatTitle") }, heatTable(labels, found.scores)), scale()),
    h("section", { class: "card" }, h("h2", {}, t("plotTitle")), plot(found, texts), h("p", { class: "small soft" }, t("plotHelp")))), gap(), cut];
}

function plot(found, texts) {
  const size = 360;
  const at = (value) => size / 2 + value * (size / 2 - 46);
  const dots = found.points.map(([x, y], i) => {
    const place = found.occurrences[i];
    const side = x > 0.35 ? "end" : "start";
    return h("g", {}, h("circle", { class: "dot", cx: at(x), cy: at(-y), r: 9, fill: COLOURS[place.text % COLOURS.length] }, h("title", {}, texts[place.text])),
      h("text", { x: at(x) + (side === "end" ? -13 : 13), y: at(-y) + 4, "text-anchor": side }, `${i + 1}. ${short(texts[place.text])}`));
  });
  return h("svg", { class: "plot", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": t("plotTitle") },
    h("line", { class: "axis", x1: 0, x2: size, y1: size / 2, y2: size / 2 }), h("line", { class: "axis", y1: 0, y2: size, x1: size / 2, x2: size / 2 }), dots);
}

const short = (text) => (Array.from(text).length > 9 ? `${Array.from(text).slice(0, 8).join("")}…` : text);
