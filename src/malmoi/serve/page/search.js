// Search: a question to a corpus, what was found and by which side, and what a reranker changed.

import { post } from "./api.js";
import { fill, gap, h, marked, meter, segmented } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

const SAMPLES = ["제 상품 언제 도착해요?", "I want my money back", "밤에 열이 나면 어디로 가죠?", "비밀번호 reset", "보험금 claim 서류"];

export function draw(panel, info, values, link) {
  if (!info.corpora.length) {
    fill(panel, h("h1", {}, t("searchTitle")), h("div", { class: "notice" }, h("p", {}, t("noCorpus")), h("p", { class: "number" }, "malmoi serve --corpus FILE.malmoi")));
    return;
  }
  const chosen = {
    corpus: info.corpora.some((one) => one.name === values.corpus) ? values.corpus : info.corpora[0].name,
    mode: ["hybrid", "dense", "keyword"].includes(values.mode) ? values.mode : "hybrid",
    rerank: Boolean(info.reranker) && values.rerank === "1",
  };
  const input = h("input", { id: "query", type: "search", value: values.q ?? "", placeholder: t("searchPlaceholder"), autocomplete: "off", enterkeyhint: "search" });
  const out = h("div", { "aria-live": "polite" });
  const modes = h("div", {});
  const drawModes = () => fill(modes, segmented(t("mode"), [["hybrid", t("hybrid")], ["dense", t("dense")], ["keyword", t("keyword")]], chosen.mode, (mode) => {
    chosen.mode = mode;
    drawModes();
    modes.querySelector('[aria-pressed="true"]').focus();
    if (input.value.trim()) run();
  }));
  const run = async () => {
    const query = input.value.trim();
    link({ q: query, corpus: chosen.corpus, mode: chosen.mode, rerank: chosen.rerank ? "1" : "" });
    if (!query) return fill(out, empty(ask));
    fill(out, h("p", { class: "status" }, t("working")));
    const began = performance.now();
    try {
      const found = await post("/v1/search", { query, corpus: chosen.corpus, mode: chosen.mode, rerank: chosen.rerank, k: 10 });
      fill(out, results(found, Math.round(performance.now() - began)));
    } catch (error) {
      if (error.name !== "AbortError") fill(out, problem(error));
    }
  };
  const ask = (query) => { input.value = query; run(); };
  drawModes();
  const rerank = info.reranker
    ? h("label", { class: "check" }, h("input", { type: "checkbox", checked: chosen.rerank, onchange: (event) => { chosen.rerank = event.target.checked; if (input.value.trim()) run(); } }), t("rerank"))
    : h("p", { class: "small soft" }, t("noReranker"));
  const corpora = h("select", { id: "corpus", "aria-label": t("corpus"), onchange: (event) => { chosen.corpus = event.target.value; run(); } },
    info.corpora.map((one) => h("option", { value: one.name, selected: one.name === chosen.corpus }, `${one.name} (${one.documents.toLocaleString()})`)));
  const form = h("form", { class: "card stack", role: "search", onsubmit: (event) => { event.preventDefault(); run(); } },
    h("label", { for: "query" }, t("searchLabel")),
    h("div", { class: "row" }, h("div", { class: "grow" }, input), h("button", { class: "primary", type: "submit" }, t("searchRun"))),
    h("div", { class: "row" }, modes, corpora, rerank));
  fill(panel, h("h1", {}, t("searchTitle")), h("p", { class: "lead" }, t("searchLead")), form, h("div", {}, gap(), out));
  if (values.q) run();
  else fill(out, empty(ask));
}

function empty(ask) {
  return h("div", { class: "empty" }, h("p", {}, t("samples")), gap(),
    h("div", { class: "row", role: "group", "aria-label": t("samples") }, SAMPLES.map((query) => h("button", { class: "chip", type: "button", onclick: () => ask(query) }, query))));
}

function results(found, milliseconds) {
  if (!found.hits.length) return h("p", { class: "empty" }, t("nothingFound"));
  const best = Math.max(...found.hits.map((hit) => hit.score), 1e-9);
  return [
    h("p", { class: "status" }, t("foundIn", found.documents.toLocaleString(), milliseconds)),
    found.reranked ? [effect(found), gap()] : null,
    h("ol", { class: "results" }, found.hits.map((hit, i) => row(hit, i, best, found.reranked))),
  ];
}

// The order before on the left, the one after on the right, and a line from place to place. What
// left the list, or came into it from further down, has its other place beside its score.
function effect(found) {
  const step = 32;
  const height = step * Math.max(found.before.length, found.hits.length);
  const middle = (place) => step * (place - 0.5);
  const changed = found.hits.filter((hit, i) => hit.rank_before !== i + 1).length;
  const lines = found.before.map((one, i) => ({ from: i + 1, to: one.rank_after })).filter(({ to }) => to <= found.hits.length)
    .map(({ from, to }) => h("line", { class: `slope-line ${to < from ? "up" : to > from ? "down" : "same"}`, x1: 0, y1: middle(from), x2: 72, y2: middle(to) }));
  const item = (rank, text, score, note) => h("li", { title: text },
    h("span", { class: "slope-rank number" }, String(rank)), h("span", { class: "slope-text" }, text), note, h("span", { class: "number" }, score.toFixed(3)));
  const note = (kind, sign, place) => h("span", { class: `badge ${kind}`, title: t(kind ? "leftTo" : "cameFrom", place) }, `${sign} ${place}`);
  return h("section", { class: "card" },
    h("h2", {}, t("effect")),
    h("p", { class: "small soft" }, changed ? t("effectHelp", changed) : t("effectNone")),
    h("div", { class: "slope" },
      h("h3", { class: "small" }, t("before")), h("span", {}), h("h3", { class: "small" }, t("after")),
      h("ol", { class: "slope-list" }, found.before.map((one, i) => item(i + 1, one.text, one.score, one.rank_after > found.hits.length ? note("warm", "▼", one.rank_after) : null))),
      h("svg", { class: "slope-lines", viewBox: `0 0 72 ${height}`, height, preserveAspectRatio: "none", "aria-hidden": "true" }, lines),
      h("ol", { class: "slope-list" }, found.hits.map((hit, i) => item(i + 1, hit.text, hit.scores.rerank ?? hit.score, hit.rank_before > found.before.length ? note("", "▲", hit.rank_before) : null)))));
}

function row(hit, i, best, reranked) {
  const { answer, ...rest } = hit.metadata;
  const share = hit.scores.dense !== undefined && !reranked && hit.score < 0.2 ? hit.score / best : hit.score / Math.max(best, 1);
  return h("li", { class: "card hit" },
    h("span", { class: "rank" }, String(i + 1)),
    h("div", {},
      h("p", { class: "text" }, marked(hit.text, hit.matches)),
      answer ? h("p", { class: "answer" }, String(answer)) : null,
      h("div", { class: "meta" },
        moved(hit, i),
        Object.entries(rest).map(([name, value]) => h("span", { class: "badge plain" }, `${name}: ${value}`)))),
    h("div", { class: "score" },
      h("span", { class: "number" }, Object.entries(hit.scores).filter(([name]) => reranked || name !== "fused").map(([name, score]) => h("div", {}, `${t(`score_${name}`)} ${score.toFixed(2)}`))),
      meter(share, t("scoreOf", hit.score.toFixed(3)))));
}

function moved(hit, i) {
  if (hit.rank_before === null || hit.rank_before === undefined) return null;
  const step = hit.rank_before - (i + 1);
  if (!step) return h("span", { class: "badge plain" }, t("stayed"));
  return h("span", { class: step > 0 ? "badge" : "badge warm" }, t(step > 0 ? "rose" : "fell", Math.abs(step), hit.rank_before));
}
