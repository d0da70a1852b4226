// Search: a question to a corpus, the documents that were found, and what a reranker changed.

import { get, post } from "./api.js";
import { openDocument } from "./context.js";
import { download, toCsv } from "./csv.js";
import { address, command, fill, h, marked, meter, segmented, metOf, spansOf } from "./dom.js";
import { language, t } from "./i18n.js";
import { problem } from "./main.js";
import { dropZone } from "./upload.js";

const PAGE = 10;
const RELEVANT = 0.15; // as malmoi.corpus.RELEVANT: below it hardly any passage answers

// Late interaction, by the encoder itself, has ordered what a search finds already.
const crossEncoder = (info) => Boolean(info.reranker) && info.reranker.id !== info.encoder.id;

export function draw(panel, info, values, link) {
  if (!info.corpora.length) {
    fill(panel, h("h1", {}, t("searchTitle")), h("p", { class: "lead" }, t("searchLead")),
      h("section", { class: "notice stack" }, h("h2", {}, t("noCorpus")), ownFiles(),
        h("h3", {}, t("samplesFirst")), h("p", {}, t("samplesHelp")), command("malmoi serve")));
    return;
  }
  const chosen = {
    corpus: info.corpora.some((one) => one.name === values.corpus) ? values.corpus : info.corpora[0].name,
    mode: ["hybrid", "dense", "keyword"].includes(values.mode) ? values.mode : "hybrid",
    rerank: crossEncoder(info) && values.rerank === "1",
    group: values.group !== "0",
    folder: values.folder ?? "",
    type: values.type ?? "",
    offset: Math.min(Math.max(Math.trunc(Number(values.from)) || 0, 0), 1000),
  };
  const input = h("input", { id: "query", type: "search", value: values.q ?? "", placeholder: t("searchPlaceholder"), autocomplete: "off", enterkeyhint: "search" });
  const out = h("div", { class: "out", "aria-live": "polite" });
  const modes = h("div", {});
  const filters = h("div", { class: "row filters" });
  let about = null;
  const settings = h("summary", {});
  const drawSettings = () => fill(settings, t("options"), " ", h("span", { class: "soft" },
    [info.corpora.length > 1 ? chosen.corpus : "", chosen.mode === "hybrid" ? "" : t(chosen.mode), chosen.rerank ? t("rerank") : "", chosen.folder, chosen.type].filter(Boolean).join(" · ")));
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
    drawSettings();
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
    scrollTo(0, 0);
    out.querySelector(".hit button, .pager button")?.focus({ preventScroll: true });
  };
  // What the corpus holds: its folders and types to choose from, and questions that it answers.
  const describe = async () => {
    about = null;
    fill(filters);
    try {
      about = await post("/v1/corpus", { corpus: chosen.corpus, lang: language() });
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
    drawSettings();
    if (!input.value.trim()) fill(out, empty(about, ask));
    if (about && !about.documents) upload?.setAttribute("open", "");
  };
  drawModes();
  const rerank = crossEncoder(info)
    ? h("label", { class: "check" }, h("input", { id: "rerank", type: "checkbox", checked: chosen.rerank, onchange: (event) => { chosen.rerank = event.target.checked; again(); } }), t("rerank"))
    : h("p", { class: "small soft" }, t("noReranker"));
  const group = h("label", { class: "check" }, h("input", { id: "group", type: "checkbox", checked: chosen.group, onchange: (event) => { chosen.group = event.target.checked; again(); } }), t("group_by"));
  const corpora = h("select", { id: "corpus", "aria-label": t("corpus"), onchange: (event) => { Object.assign(chosen, { corpus: event.target.value, folder: "", type: "", offset: 0 }); describe(); run(); } });
  const drawCorpora = () => fill(corpora, info.corpora.map((one) => h("option", { value: one.name, selected: one.name === chosen.corpus }, `${one.name} (${one.documents.toLocaleString()})`)));
  drawCorpora();
  const form = h("form", { role: "search", onsubmit: (event) => { event.preventDefault(); chosen.offset = 0; run(); } },
    h("label", { for: "query", class: "unseen" }, t("searchLabel")),
    h("div", { class: "row ask" }, h("div", { class: "grow" }, input), h("button", { class: "primary", type: "submit" }, t("searchRun"))));
  const options = h("details", { class: "fold", id: "options" }, settings,
    h("div", { class: "stack" }, h("div", { class: "row" }, modes, corpora, group), filters, rerank));
  const uploaded = async () => {
    Object.assign(info, await get("/v1/info").catch(() => ({})));
    drawCorpora();
    await describe();
    if (input.value.trim()) run();
  };
  const upload = info.uploads
    ? h("details", { class: "fold", id: "upload" }, h("summary", {}, t("uploadTitle")), dropZone(info.uploads, () => chosen.corpus, uploaded))
    : null;
  fill(panel, h("h1", {}, t("searchTitle")), h("p", { class: "lead" }, t("searchLead")), form, h("div", { class: "folds" }, options, upload), out);
  const ready = describe();
  if (values.q) ready.then(run);
}

function choice(id, label, all, facets, chosen, choose) {
  return h("label", { class: "choice", for: id }, label,
    h("select", { id, onchange: (event) => choose(event.target.value) },
      h("option", { value: "" }, all),
      facets.map((one) => h("option", { value: one.name, selected: one.name === chosen }, `${one.name} (${one.documents.toLocaleString()})`))));
}

// How to search files of one's own, as lines to copy.
const ownFiles = () => h("div", { class: "stack" }, h("p", {}, t("ownFiles")), command("malmoi index docs.malmoi FOLDER"), command("malmoi serve --corpus docs.malmoi"));

function empty(about, ask) {
  if (!about) return h("p", { class: "empty" }, t("working"));
  if (!about.documents) return h("div", { class: "empty stack" }, h("p", {}, t("emptyCorpus")), ownFiles());
  return h("div", { class: "empty stack" },
    about.questions.length
      ? [h("p", {}, t("samples")), h("div", { class: "row", role: "group", "aria-label": t("samples") }, about.questions.map((query) => h("button", { class: "chip", type: "button", onclick: () => ask(query) }, query)))]
      : h("p", {}, t("askAway")),
    about.sample ? h("details", { class: "fold welcome" }, h("summary", {}, t("aboutSample", about.documents)), ownFiles()) : null);
}

// A hit alone is shown like a document with one passage.
const asGroups = (found) => found.groups.length ? found.groups : found.hits.map((hit) => ({ ...hit, hits: [hit] }));

// From 0 to 1, where the server says it.
function relevanceOf(one) {
  const known = one.hits.map((hit) => hit.relevance).filter((value) => typeof value === "number");
  return known.length ? Math.max(...known) : null;
}

function results(found, milliseconds, asked) {
  const groups = asGroups(found);
  if (!groups.length) return [h("p", { class: "empty" }, t("nothingFound")), asked.offset ? pager(found, asked) : null];
  const known = groups.map(relevanceOf);
  const poor = known.every((value) => value !== null && value < RELEVANT);
  const save = () => download(`malmoi-${asked.corpus}.csv`, toCsv(groups));
  return [
    h("div", { class: "row between" },
      poor && !asked.offset ? h("p", { class: "status poor", role: "status" }, t("nothingRelevant")) : h("p", { class: "status" }, t("foundIn", found.documents.toLocaleString(), milliseconds)),
      h("button", { class: "link", type: "button", id: "export", onclick: save }, t("exportCsv"))),
    h("ol", { class: "results", start: asked.offset + 1 }, groups.map((one, i) => row(one, asked.offset + i, known[i], found.reranked, asked))),
    found.reranked && !asked.offset ? effect(found, groups) : null,
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
  return h("details", { class: "card effect" },
    h("summary", {}, t("effect")),
    h("p", { class: "small soft" }, changed ? t("effectHelp", changed) : t("effectNone")),
    h("div", { class: "slope" },
      h("h3", { class: "small" }, t("before")), h("span", {}), h("h3", { class: "small" }, t("after")),
      h("ol", { class: "slope-list" }, found.before.map((one, i) => item(i + 1, one.title || one.text, one.score, one.rank_after > groups.length ? note("warm", "▼", one.rank_after) : null))),
      h("svg", { class: "slope-lines", viewBox: `0 0 72 ${height}`, height, preserveAspectRatio: "none", "aria-hidden": "true" }, lines),
      h("ol", { class: "slope-list" }, groups.map((one, i) => item(i + 1, one.title || one.hits[0].text, one.hits[0].scores.rerank ?? one.score, one.rank_before > found.before.length ? note("", "▲", one.rank_before) : null)))));
}

// A document from a file has a title, a place and passages; one from a table is its text alone.
function row(one, i, relevance, reranked, asked) {
  const [first, ...others] = one.hits;
  const { answer, ...rest } = first.metadata;
  const filed = Boolean(first.type || first.title);
  const name = filed ? first.title || one.id : marked(first.text, spansOf(first.matches));
  const scores = Object.entries(first.scores).filter(([part]) => reranked || part !== "fused");
  return h("li", { class: "card hit" },
    h("span", { class: "rank", "aria-hidden": "true" }, String(i + 1)),
    h("div", {},
      h("h2", {}, h("button", { class: filed ? "open title" : "open title text", type: "button", "aria-haspopup": "dialog", onclick: () => openDocument(first, asked) }, name)),
      h("p", { class: "small soft place" },
        relevance === null ? null : h("span", { class: "relevance" }, meter(relevance, t("relevance", relevance.toFixed(2))), h("span", { class: "number", "aria-hidden": "true" }, relevance.toFixed(2))),
        filed ? [h("span", { class: "document" }, address(first)), h("span", { class: "where" }, place(first)), first.type ? h("span", { class: "badge plain" }, first.type) : null]
          : Object.entries(rest).map(([field, value]) => h("span", { class: "badge plain" }, `${field}: ${value}`)),
        moved(first, i)),
      filed ? h("p", { class: "passage snippet" }, marked(first.snippet, snippetSpans(first))) : answer ? h("p", { class: "answer snippet" }, String(answer)) : null,
      h("details", { class: "more" },
        h("summary", { class: "small" }, others.length ? t("morePassages", others.length) : t("details")),
        others.map((hit) => passage(hit, asked)),
        h("p", { class: "small soft" }, t("signals"), " ", scores.map(([part, score]) => h("span", { class: "number" }, `${t(`score_${part}`)} ${score.toFixed(2)} `))))));
}

// The words to mark in a part of a passage: those of the passage that lie in it, if they are given.
function snippetSpans(hit) {
  const own = hit.snippet.replace(/^…|…$/g, "");
  const at = hit.text.indexOf(own), met = metOf(hit);
  if (at < 0 || !met?.length || Array.isArray(met[0])) return spansOf(hit.snippet_matches);
  const size = (text) => Array.from(text).length;
  const [start, moved] = [size(hit.text.slice(0, at)), hit.snippet.startsWith("…") ? 1 : 0];
  return spansOf(met).filter(([from, to]) => from >= start && to <= start + size(own)).map(([from, to]) => [from - start + moved, to - start + moved]);
}

// The headings above a passage; its page stands in the address.
function place(hit) {
  return hit.headings.filter((heading) => heading !== hit.title).join(" › ");
}

function passage(hit, asked) {
  const where = [place(hit), hit.page === null ? "" : t("pageOf", hit.page)].filter(Boolean).join(" · ");
  return h("div", { class: "passage" },
    where ? h("p", { class: "small where" }, where) : null,
    h("p", { class: "snippet" }, marked(hit.snippet, snippetSpans(hit))),
    h("button", { class: "link small", type: "button", "aria-haspopup": "dialog", onclick: () => openDocument(hit, asked) }, t("showContext")));
}

function moved(hit, i) {
  if (hit.rank_before === null || hit.rank_before === undefined) return null;
  const step = hit.rank_before - (i + 1);
  if (!step) return h("span", { class: "badge plain" }, t("stayed"));
  return h("span", { class: step > 0 ? "badge" : "badge warm" }, t(step > 0 ? "rose" : "fell", Math.abs(step), hit.rank_before));
}
