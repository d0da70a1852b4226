// Hits as a table for spreadsheets, made here: the server is not asked again.

const COLUMNS = ["rank", "document", "title", "headings", "page", "type", "score", "text"];

// A spreadsheet runs a cell that starts like a formula; a quotation mark before it makes it text.
export function cell(value) {
  const text = String(value ?? "");
  const safe = typeof value !== "number" && /^[\s\uFEFF]*[=+\-@|%\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

export function toCsv(groups) {
  const rows = groups.flatMap((group, i) => group.hits.map((hit) =>
    [i + 1, hit.id, hit.title, hit.headings.join(" > "), hit.page, hit.type, hit.score, hit.text]));
  return [COLUMNS, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function download(name, text) {
  // With a mark of its encoding, which Excel needs for Korean.
  const url = URL.createObjectURL(new Blob(["\uFEFF", text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
