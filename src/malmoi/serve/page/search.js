// Search: a question to a corpus, the documents that were found, and what a reranker changed.

import { get, post } from "./api.js";
import { contextDialog } from "./context.js";
import { download, toCsv } from "./csv.js";
import { fill, gap, h, marked, meter, segmented } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";
import { dropZone } from "./upload.js";

const PAGE = 10;

export function draw(panel, info, values, link) {
  if (!info.corpora.length) {
    fill(panel, h("h1", {}, t("searchTitle")), h("div", { class: "notice" }, h("p", {}, t("noCorpus")), h("p", { class: "number" }, "malmoi serve --corpus FILE.malmoi")));
    return;
  }
  const chosen = {
    corpus: info.corpora.some((one) => one.name === values.corpus) ? values.corpus : info.corpora[0].name,
    mode: ["hybrid", "dense", "keyword"].includes(values.mode) ? values.mode : "hybrid",
    rerank: Boolean(info.reranker) && values.rerank === "1",
    group: values.group !== "0",
    folder: values.folder ?? "",
    type: values.type ?? "",
    offset: Math.min(Math.max(Math.trunc(Number(values.from)) || 0, 0), 1000),
  };
  const input = h("input", { id: "query", type: "search", value: values.q ?? "", placeholder: t("searchPlaceholder"), autocomplete: "off", enterkeyhint: "search" });
  const out = h("div", { "aria-live": "polite" });
  const modes = h("div", {});
  const filters = h("div", { class: "row filters" });
  let about = null;
  const again = () => { chosen.offset = 0; if (input.value.trim()) run(); };
  const drawModes = () => fill(modes, segmented(t("mode"), [["hybrid", t("hybrid")], ["dense", t("dense")], ["keyword", t("keyword")]], chosen.mode, (mode) => {
    chosen.mode = mode;
    drawModes();
    modes.querySelector('[aria-pressed="true"]').focus();
    again();
  }));
  const run = async () => {
    const query = input.value.trim();
    const { corpus, mode, rerank, group, folder, type, offset } = chosen;
    link({ q: query, corpus, mode, rerank: rerank ? "1" : "", group: group ? "" : "0", folder, type, from: offset || "" });
    if (!query) return fill(out, empty(about, ask));
    fill(out, h("p", { class: "status" }, t("working")));
    const began = performance.now();
    try {
      const body = { query, corpus, mode, rerank, group, k: PAGE, offset };
      if (folder) body.folder = folder;
      if (type) body.type = type;
      const found = await post("/v1/search", body);
      fill(out, results(found, Math.round(performance.now() - began), { query, corpus, offset, turn }));
    } catch (error) {
      if (error.name !== "AbortError") fill(out, problem(error));
    }
  };
  const ask = (query) => { input.value = query; chosen.offset = 0; run(); };
  const turn = async (offset) => {
    chosen.offset = offset;
    await run();
    out.querySelector(".status")?.scrollIntoView({ block: "start" });
    out.querySelector("h3 button, .hit button, .pager button")?.focus({ preventScroll: true });
  };
  // What the corpus holds: its folders and types to choose from, and questions that it answers.
  const describe = async () => {
    about = null;
    fill(filters);
    try {
      about = await post("/v1/corpus", { corpus: chosen.corpus });
    } catch (error) {
      if (error.name === "AbortError") return;
    }
    if (about) {
      if (!about.folders.some((one) => one.name === chosen.folder)) chosen.folder = "";
      if (!about.types.some((one) => one.name === chosen.type)) chosen.type = "";
      fill(filters,
        about.folders.length ? choice("folder", t("folder"), t("allFolders"), about.folders, chosen.folder, (value) => { chosen.folder = value; again(); }) : null,
        about.types.length > 1 ? choice("type", t("type"), t("allTypes"), about.types, chosen.type, (value) => { chosen.type = value; again(); }) : null);
    }
    if (!input.value.trim()) fill(out, empty(about, ask));
  };
  drawModes();
  const rerank = info.reranker
    ? h("label", { class: "check" }, h("input", { id: "rerank", type: "checkbox", checked: chosen.rerank, onchange: (event) => { chosen.rerank = event.target.checked; again(); } }), t("rerank"))
    : h("p", { class: "small soft" }, t("noReranker"));
  const group = h("label", { class: "check" }, h("input", { id: "group", type: "checkbox", checked: chosen.group, onchange: (event) => { chosen.group = event.target.checked; again(); } }), t("group_by"));
  const corpora = h("select", { id: "corpus", "aria-label": t("corpus"), onchange: (event) => { Object.assign(chosen, { corpus: event.target.value, folder: "", type: "", offset: 0 }); describe(); run(); } });
  const drawCorpora = () => fill(corpora, info.corpora.map((one) => h("option", { value: one.name, selected: one.name === chosen.corpus }, `${one.name} (${one.documents.toLocaleString()})`)));
  drawCorpora();
  const form = h("form", { class: "card stack", role: "search", onsubmit: (event) => { event.preventDefault(); chosen.offset = 0; run(); } },
    h("label", { for: "query" }, t("searchLabel")),
    h("div", { class: "row" }, h("div", { class: "grow" }, input), h("button", { class: "primary", type: "submit" }, t("searchRun"))),
    h("div", { class: "row" }, modes, corpora, rerank, group),
    filters);
  const uploaded = async () => {
    Object.assign(info, await get("/v1/info").catch(() => ({})));
    drawCorpora();
    await describe();
    if (input.value.trim()) run();
  };
  const zone = info.uploads ? dropZone(info.uploads, () => chosen.corpus, uploaded) : null;
  fill(panel, h("h1", {}, t("searchTitle")), h("p", { class: "lead" }, t("searchLead")), form, zone, h("div", {}, gap(), out));
  const ready = describe();
  if (values.q) ready.then(run);
}

function choice(id, label, all, facets, chosen, choose) {
  return h("label", { class: "choice", for: id }, label,
    h("select", { id, onchange: (event) => choose(event.target.value) },
      h("option", { value: "" }, all),
      facets.map((one) => h("option", { value: one.name, selected: one.name === chosen }, `${one.name} (${one.documents.toLocaleString()})`))));
}

function empty(about, ask) {
  if (!about) return h("p", { class: "empty" }, t("working"));
  if (!about.documents) return h("p", { class: "empty" }, t("emptyCorpus"));
  if (!about.questions.length) return h("p", { class: "empty" }, t("askAway"));
  return h("div", { class: "empty" }, h("p", {}, t("samples")), gap(),
    h("div", { class: "row", role: "group", "aria-label": t("samples") }, about.questions.map((query) => h("button", { class: "chip", type: "button", onclick: () => ask(query) }, query))));
}

// A hit alone is shown like a document with one passage.
const asGroups = (found) => found.groups.length ? found.groups : found.hits.map((hit) => ({ ...hit, hits: [hit] }));

function results(found, milliseconds, asked) {
  const groups = asGroups(found);
  if (!groups.length) return [h("p", { class: "empty" }, t("nothingFound")), asked.offset ? pager(found, asked) : null];
  const scores = groups.map((one) => one.score);
  const best = Math.max(...scores);
  const worst = Math.min(0, ...scores);
  const save = () => download(`malmoi-${asked.corpus}.csv`, toCsv(groups));
  return [
    h("div", { class: "row between" },
      h("p", { class: "status" }, t("foundIn", found.documents.toLocaleString(), milliseconds)),
      h("button", { class: "quiet", type: "button", id: "export", onclick: save }, t("exportCsv"))),
    found.reranked && !asked.offset ? [effect(found, groups), gap()] : null,
    h("ol", { class: "results", start: asked.offset + 1 }, groups.map((one, i) => row(one, asked.offset + i, (one.score - worst) / (best - worst || 1), found.reranked, asked))),
    pager(found, asked),
  ];
}

function pager(found, { offset, turn }) {
  if (!offset && found.next_offset === null) return null;
  return h("nav", { class: "row pager", "aria-label": t("pages") },
    h("button", { class: "quiet", type: "button", disabled: !offset, onclick: () => turn(Math.max(0, offset - PAGE)) }, t("previous")),
    h("span", { class: "soft" }, t("pageNumber", Math.floor(offset / PAGE) + 1)),
    h("button", { class: "quiet", type: "button", disabled: found.next_offset === null, onclick: () => turn(found.next_offset) }, t("next")));
}

// The order before on the left, the one after on the right, and a line from place to place. What
// left the list, or came into it from further down, has its other place beside its score.
function effect(found, groups) {
  const step = 32;
  const height = step * Math.max(found.before.length, groups.length);
  const middle = (place) => step * (place - 0.5);
  const changed = groups.filter((one, i) => one.rank_before !== i + 1).length;
  const lines = found.before.map((one, i) => ({ from: i + 1, to: one.rank_after })).filter(({ to }) => to <= groups.length)
    .map(({ from, to }) => h("line", { class: `slope-line ${to < from ? "up" : to > from ? "down" : "same"}`, x1: 0, y1: middle(from), x2: 72, y2: middle(to) }));
  const item = (rank, text, score, note) => h("li", { title: text },
    h("span", { class: "slope-rank number" }, String(rank)), h("span", { class: "slope-text" }, text), note, h("span", { class: "number" }, score.toFixed(3)));
  const note = (kind, sign, place) => h("span", { class: `badge ${kind}`, title: t(kind ? "leftTo" : "cameFrom", place) }, `${sign} ${place}`);
  return h("section", { class: "card" },
    h("h2", {}, t("effect")),
    h("p", { class: "small soft" }, changed ? t("effectHelp", changed) : t("effectNone")),
    h("div", { class: "slope" },
      h("h3", { class: "small" }, t("before")), h("span", {}), h("h3", { class: "small" }, t("after")),
      h("ol", { class: "slope-list" }, found.before.map((one, i) => item(i + 1, one.title || one.text, one.score, one.rank_after > groups.length ? note("warm", "▼", one.rank_after) : null))),
      h("svg", { class: "slope-lines", viewBox: `0 0 72 ${height}`, height, preserveAspectRatio: "none", "aria-hidden": "true" }, lines),
      h("ol", { class: "slope-list" }, groups.map((one, i) => item(i + 1, one.title || one.hits[0].text, one.hits[0].scores.rerank ?? one.score, one.rank_before > found.before.length ? note("", "▲", one.rank_before) : null)))));
}

// A document from a file has a title, a place and passages; one from a table is its text alone.
function row(one, i, share, reranked, asked) {
  const first = one.hits[0];
  const { answer, ...rest } = first.metadata;
  const filed = Boolean(first.type || first.title);
  return h("li", { class: "card hit" },
    h("span", { class: "rank", "aria-hidden": "true" }, String(i + 1)),
    h("div", {},
      filed
        ? [h("h3", { class: "title" }, first.title || one.id),
          h("p", { class: "small soft place" }, h("span", { class: "document" }, one.id), first.type ? h("span", { class: "badge plain" }, first.type) : null),
          one.hits.map((hit) => passage(hit, asked))]
        : [h("p", { class: "text" }, marked(first.text, first.matches)), answer ? h("p", { class: "answer" }, String(answer)) : null],
      h("div", { class: "meta" },
        moved(first, i),
        Object.entries(filed ? {} : rest).map(([name, value]) => h("span", { class: "badge plain" }, `${name}: ${value}`)))),
    h("div", { class: "score" },
      h("span", { class: "number" }, Object.entries(first.scores).filter(([name]) => reranked || name !== "fused").map(([name, score]) => h("div", {}, `${t(`score_${name}`)} ${score.toFixed(2)}`))),
      meter(share, t("scoreOf", one.score.toFixed(3)))));
}

export function place(hit) {
  const headings = hit.headings.filter((heading) => heading !== hit.title);
  return [headings.join(" › "), hit.page === null ? "" : t("pageOf", hit.page)].filter(Boolean).join(" · ");
}

function passage(hit, asked) {
  const where = place(hit);
  return h("div", { class: "passage" },
    where ? h("p", { class: "small where" }, where) : null,
    h("p", { class: "text" }, marked(hit.snippet, hit.snippet_matches)),
    h("button", { class: "link small", type: "button", "aria-haspopup": "dialog", onclick: () => contextDialog(hit, asked) }, t("showContext")));
}

function moved(hit, i) {
  if (hit.rank_before === null || hit.rank_before === undefined) return null;
  const step = hit.rank_before - (i + 1);
  if (!step) return h("span", { class: "badge plain" }, t("stayed"));
  return h("span", { class: step > 0 ? "badge" : "badge warm" }, t(step > 0 ? "rose" : "fell", Math.abs(step), hit.rank_before));
}
