// Hits as a table for spreadsheets, made here: the server is not asked again.

import { save } from "./dom.js";

const COLUMNS = ["rank", "document", "title", "headings", "page", "type", "relevance", "score", "text"];

// A spreadsheet runs a cell that starts like a formula; a quotation mark before it makes it text.
export function cell(value) {
  const text = String(value ?? "");
  const safe = typeof value !== "number" && /^[\s\uFEFF]*[=+\-@|%\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

export function toCsv(groups) {
  const rows = groups.flatMap((group, i) => group.hits.map((hit) =>
    [i + 1, hit.id, hit.title, hit.headings.join(" > "), hit.page, hit.type, hit.relevance, hit.score, hit.text]));
  return table([COLUMNS, ...rows]);
}

export const table = (rows) => rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

export function download(name, text) {
  save(name, "text/csv;charset=utf-8", "\uFEFF", text); // with a mark of its encoding, which Excel needs for Korean
}
