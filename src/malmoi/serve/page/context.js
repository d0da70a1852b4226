// A passage between its neighbours, in a dialog: nothing of it stands in the address.

import { post } from "./api.js";
import { fill, h, marked } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

const MOST = 20; // passages on either side, as the server has it

export function contextDialog(hit, { query, corpus }) {
  let count = 2;
  const body = h("div", { class: "context", "aria-live": "polite" }, h("p", { class: "status" }, t("working")));
  const close = h("button", { class: "quiet", type: "button", onclick: () => dialog.close() }, t("close"));
  const dialog = h("dialog", { class: "dialog wide", "aria-labelledby": "context-title", onclose: () => dialog.remove() },
    h("div", { class: "row between" }, h("h2", { id: "context-title" }, hit.title || hit.id), close),
    h("p", { class: "small" }, hit.id), body);
  const load = async () => {
    try {
      // The server marks the words of short queries only.
      const found = await post("/v1/passages", { corpus, id: hit.id, number: hit.number, count, query: Array.from(query).slice(0, 1000).join("") });
      fill(body, shown(found));
      body.querySelector("[aria-current]").scrollIntoView({ block: "center" });
    } catch (error) {
      if (error.name !== "AbortError") fill(body, problem(error));
    }
  };
  const more = () => { count = Math.min(count + 4, MOST); load(); };
  const shown = (found) => {
    const button = (there) => there && count < MOST ? h("button", { class: "quiet", type: "button", onclick: more }, t("showMore")) : null;
    let above = null;
    return [
      button(found.more_before),
      found.passages.map((one) => {
        const path = one.headings.filter((heading) => heading !== found.title).join(" › ");
        const heading = path && path !== above ? h("h3", { class: "small" }, path) : null;
        above = path;
        const here = one.number === hit.number;
        return [heading, h("p", { class: here ? "neighbour here" : "neighbour", "aria-current": here ? "true" : null },
          one.page === null ? null : h("span", { class: "badge plain" }, t("pageOf", one.page)), " ", marked(one.text, one.matches))];
      }),
      button(found.more_after),
    ];
  };
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
  load();
}
