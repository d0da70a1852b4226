// A hit's document as text, opened at the passage: nothing of it stands in the address.

import { post } from "./api.js";
import { address, copyButton, fill, h, marked, metOf, spansOf } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

const MOST = 20; // passages on either side of one, as the server has it

export function openDocument(hit, { query, corpus }) {
  const passages = new Map();
  let [before, after] = [false, false];
  const body = h("div", { class: "context", "aria-live": "polite", tabindex: "0", role: "region", "aria-labelledby": "context-title" }, h("p", { class: "status" }, t("working")));
  const close = h("button", { class: "quiet", type: "button", onclick: () => dialog.close() }, t("close"));
  const dialog = h("dialog", { class: "dialog document-view", "aria-labelledby": "context-title", onclose: () => dialog.remove() },
    h("div", { class: "row between head" }, h("h2", { id: "context-title" }, hit.title || hit.id), close),
    h("p", { class: "small row" }, h("code", { class: "path" }, address(hit)), copyButton(address(hit))), body);
  // The passages around one; those that are here already stay.
  const load = async (number) => {
    try {
      // The server marks the words of short queries only.
      const found = await post("/v1/passages", { corpus, id: hit.id, number, count: MOST, query: Array.from(query).slice(0, 1000).join("") });
      const own = found.passages.map((one) => one.number);
      if (!passages.size || Math.min(...own) < Math.min(...passages.keys())) before = found.more_before;
      if (!passages.size || Math.max(...own) > Math.max(...passages.keys())) after = found.more_after;
      for (const one of found.passages) passages.set(one.number, one);
      fill(body, shown(found.title));
    } catch (error) {
      if (error.name !== "AbortError") fill(body, problem(error));
    }
  };
  const more = (there, edge) => there ? h("button", { class: "quiet", type: "button", onclick: async () => {
    const number = edge();
    await load(number);
    body.querySelector(`[data-number="${number}"]`)?.scrollIntoView({ block: "center" });
    body.focus();
  } }, t("showMore")) : null;
  const shown = (title) => {
    let above = null;
    const ordered = [...passages.values()].sort((a, b) => a.number - b.number);
    return [
      more(before, () => ordered[0].number),
      ordered.map((one) => {
        const path = one.headings.filter((heading) => heading !== title).join(" › ");
        const heading = path && path !== above ? h("h3", {}, path) : null;
        above = path;
        const here = one.number === hit.number;
        return [heading, h("p", { class: here ? "neighbour here" : "neighbour", "aria-current": here ? "true" : null, "data-number": String(one.number) },
          one.page === null ? null : [h("span", { class: "badge plain" }, t("pageOf", one.page)), " "],
          marked(one.text, here ? spansOf(metOf(hit), one.matches) : spansOf(one.matches)))];
      }),
      more(after, () => ordered.at(-1).number),
    ];
  };
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
  load(hit.number).then(() => body.querySelector("[aria-current]")?.scrollIntoView({ block: "center" }));
}
