// Compare: sentences, one a line, and how alike each two of them are.

import { post } from "./api.js";
import { fill, h, heat } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

const MOST = 24;
const SAMPLE = [
  "배가 아파서 병원에 갔어요", "My stomach hurts, so I saw a doctor", "배를 타고 섬으로 여행을 갔다",
  "We took a boat to the island", "주문한 물건은 언제 오나요?", "When will my order arrive?",
];

export function draw(panel, info, values, link) {
  const area = h("textarea", { id: "sentences", rows: "7", spellcheck: "false", value: values.q ?? "", placeholder: t("comparePlaceholder") });
  const out = h("div", { class: "out", "aria-live": "polite" });
  const run = async () => {
    const texts = area.value.split("\n").map((line) => line.trim()).filter(Boolean);
    link({ q: texts.join("\n") });
    if (texts.length < 2) return fill(out, h("p", { class: "empty" }, t("compareEmpty")));
    if (texts.length > MOST) return fill(out, h("p", { class: "notice warm" }, t("compareMost", MOST)));
    fill(out, h("p", { class: "status" }, t("working")));
    try {
      const { scores } = await post("/v1/similarity", { a: texts });
      fill(out, result(texts, scores));
    } catch (error) {
      if (error.name !== "AbortError") fill(out, problem(error));
    }
  };
  const form = h("form", { class: "card stack", onsubmit: (event) => { event.preventDefault(); run(); } },
    h("label", { for: "sentences" }, t("compareLabel")), area,
    h("div", { class: "row" },
      h("button", { class: "primary", type: "submit" }, t("compareRun")),
      h("button", { class: "quiet", type: "button", onclick: () => { area.value = SAMPLE.join("\n"); run(); } }, t("sample"))));
  area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(); });
  fill(panel, h("h1", {}, t("compareTitle")), h("p", { class: "lead" }, t("compareLead")), form, out);
  if (values.q) run();
  else fill(out, h("p", { class: "empty" }, t("compareEmpty")));
}

function result(texts, scores) {
  return h("div", { class: "columns" },
    h("section", { class: "card" }, h("h2", {}, t("heatTitle")), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("heatTitle") }, heatTable(texts, scores)), scale()),
    h("section", { class: "card" }, h("h2", {}, t("pairsTitle")), pairs(texts, scores)));
}

export function heatTable(labels, scores) {
  const cells = [];
  const rows = scores.map((row, i) => h("tr", {},
    h("th", { scope: "row", title: labels[i] }, `${i + 1}. ${labels[i]}`),
    row.map((score, j) => {
      const { color, ink } = heat(score);
      const cell = h("td", { color, ink, title: `${labels[i]}\n${labels[j]}` }, score.toFixed(2));
      cells.push(cell);
      return cell;
    })));
  return h("table", { class: "heat" },
    h("thead", {}, h("tr", {}, h("td", {}), labels.map((label, i) => h("th", { scope: "col", title: label }, String(i + 1))))),
    h("tbody", {}, rows));
}

export function scale() {
  return h("div", { class: "scale", "aria-hidden": "true" }, t("unlike"), [0, 0.2, 0.4, 0.6, 0.8, 1].map((score) => h("i", { color: heat(score).color })), t("alike"));
}

function pairs(texts, scores) {
  const found = [];
  for (let i = 0; i < texts.length; i += 1) for (let j = i + 1; j < texts.length; j += 1) found.push([scores[i][j], i, j]);
  found.sort((a, b) => b[0] - a[0]);
  return h("ol", { class: "pairs" }, found.slice(0, 6).map(([score, i, j]) =>
    h("li", {}, h("span", { class: "number" }, score.toFixed(3)), h("div", {}, h("p", {}, texts[i]), h("p", { class: "soft" }, texts[j])))));
}
