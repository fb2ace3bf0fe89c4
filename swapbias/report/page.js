// @ts-check
// What the report does beyond its text: sorting, and all scored pairs, searched and filtered.
// Texts of others only ever become text nodes. Nothing is fetched: the pairs stand in the page, compressed.
"use strict";
(() => {
  const PER_PAGE = 25;

  /** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Object<string, string>} [attributes] @param {...(Node|string)} inside */
  function made(tag, attributes, ...inside) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...inside.map((one) => (typeof one === "string" ? shown(one) : one)));
    return node;
  }

  /** A text with a mark for what cannot be seen and for what turns the direction of writing. @param {string} text */
  const shown = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

  /** @param {number|null} value @param {number} digits @param {boolean} signed */
  function number(value, digits, signed) {
    if (value === null || Number.isNaN(value)) return "–";
    const told = Math.abs(value).toFixed(digits);
    if (Number(told) === 0) return told;
    return (value < 0 ? "−" : signed ? "+" : "") + told;
  }

  // --- tables ---------------------------------------------------------------------------------------

  /** Sort the rows of each part by a column, at a second click the other way, at a third as they were. @param {HTMLTableElement} table */
  function sortable(table) {
    const heads = [...(table.tHead?.rows[0].cells ?? [])];
    const before = [...table.tBodies].map((body) => [...body.rows]);
    heads.forEach((head, place) => {
      if (head.classList.contains("pic")) return;
      const button = made("button", { type: "button" }, head.textContent || "");
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort") || ""] ?? "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        if (next !== "none") head.setAttribute("aria-sort", next);
        [...table.tBodies].forEach((body, part) => body.append(...arranged(before[part], place, next)));
      });
    });
  }

  /** Headings first, values that are missing last. @param {HTMLTableRowElement[]} rows @param {number} place @param {string} order */
  function arranged(rows, place, order) {
    const sign = { ascending: 1, descending: -1 }[order] ?? 0;
    /** @param {HTMLTableRowElement} row */
    const worth = (row) => {
      const { dataset, textContent } = row.cells[place];
      return dataset.number === undefined ? textContent || "" : dataset.number === "" ? NaN : Number(dataset.number);
    };
    const parts = [rows.filter((row) => row.classList.contains("group")), rows.filter((row) => !row.classList.contains("group"))];
    parts[1].sort((one, other) => {
      const [a, b] = [worth(one), worth(other)];
      if (!sign) return 0;
      if (typeof a === "string" || typeof b === "string") return sign * String(a).localeCompare(String(b));
      return Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : sign * (a - b);
    });
    return parts.flat();
  }

  // --- pairs ----------------------------------------------------------------------------------------

  /** Codes of a prompt: group, text, its score, tokens, answer. A comparison has a score a model. @typedef {[number, number, any, number, number]} Prompt */
  /** Codes of the fields, then the prompts. @typedef {[number[], Prompt[]]} Entry */
  /** @typedef {{fields: string[], titles: string[], values: Object<string, string[]>, models?: string[], tokens: [string, number][][], sides: string[], scale: number, unit: string, entries: Entry[]}} Pairs */

  /** @param {string} id @returns {Promise<Pairs>} */
  async function unpacked(id) {
    const content = (document.getElementById(id)?.textContent || "").split(",")[1];
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  /** The words of a text that stand between those with which both texts begin and end. @param {string} one @param {string} other @returns {[string, boolean][]} */
  function compared(one, other) {
    const [a, b] = [one, other].map((text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || []);
    let [start, end] = [0, 0];
    while (start < a.length && a[start] === b[start]) start++;
    while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
    const [first, middle, last] = [a.slice(0, start), a.slice(start, a.length - end), a.slice(a.length - end)].map((part) => part.join(""));
    return [[first, false], ...(middle ? [/** @type {[string, boolean]} */ ([middle, true])] : []), [last, false]];
  }

  /** @param {string} text @param {string} other a text to mark the differences from; blank to mark a mask */
  function marked(text, other) {
    const atMask = () => text.split(/(<mask>|\[MASK\])/).map((one, place) => /** @type {[string, boolean]} */ ([one, place % 2 === 1]));
    const parts = (other ? compared(text, other) : atMask()).map(([one, differs]) => (differs ? made("mark", {}, one) : shown(one)));
    return made("span", { class: "text", dir: "auto" }, ...parts);
  }

  /** The gap of a pair in points by each model, null where it has none. @param {Pairs} pairs @param {Entry} entry @returns {(number|null)[]} */
  function gaps(pairs, entry) {
    const [first, second] = pairs.sides.map((side) => [entry[1].find((one) => pairs.values.group[one[0]] === side)?.[2] ?? null].flat());
    return first.map((score, place) => (score === null || (second[place] ?? null) === null ? null : (score - second[place]) * pairs.scale));
  }

  /** What pairs are ordered by: the gap, of several models how far they are apart. @param {Pairs} pairs @param {Entry} entry */
  function worth(pairs, entry) {
    const known = gaps(pairs, entry).flatMap((one) => (one === null ? [] : [one]));
    if (!pairs.models) return known[0] ?? NaN;
    return known.length > 1 ? Math.max(...known) - Math.min(...known) : NaN;
  }

  /** @param {Pairs} pairs @param {Entry} entry */
  function pairNode(pairs, entry) {
    const facts = (/** @type {string} */ line) => made("p", { class: "facts", dir: "auto" }, line);
    const plain = (/** @type {string} */ name) => name.replaceAll("_", " ");
    const points = (/** @type {number|null} */ score) => number(score === null ? null : score * pairs.scale, 1, false);
    const node = made("div", { class: "pair" });
    const texts = [...new Set(entry[1].map((one) => pairs.values.text[one[1]]))];
    for (const text of texts) {
      const mine = entry[1].filter((one) => pairs.values.text[one[1]] === text);
      const tokens = mine.map((one) => pairs.tokens[one[3]]).find((one) => one && one.length);
      const answers = [...new Set(mine.map((one) => (pairs.values.answer || [])[one[4]]).filter(Boolean))];
      node.append(made("p", {}, marked(text, texts.length === 2 ? texts[1 - texts.indexOf(text)] : "")));
      if (tokens) node.append(facts("likeliest: " + tokens.map(([word, p]) => `${word} ${p}`).join(", ")));
      else if (answers.length) node.append(facts("answer: " + answers.join(" / ")));
    }
    const found = gaps(pairs, entry);
    const scores = (pairs.models ?? [""]).map((name, place) => {
      const each = entry[1].map((one) => `${plain(pairs.values.group[one[0]])} ${points([one[2]].flat()[place])}`).join(", ");
      return name ? `${name}: ${found[place] == null ? each : `${number(found[place], 1, true)} (${each})`}` : each;
    });
    node.append(...scores.map(facts));
    if (!pairs.models && found[0] != null) node.append(made("p", {}, made("strong", {}, `gap ${number(found[0], 1, true)}`)));
    node.append(facts(pairs.fields.map((name, place) => `${pairs.titles[place]}: ${plain(pairs.values[name][entry[0][place]])}`).join(" · ")));
    return node;
  }

  /** The tools above the pairs, what they are set to, and the pairs that this leaves. */
  class Explorer {
    /** @param {HTMLDetailsElement} place @param {Pairs} pairs */
    constructor(place, pairs) {
      this.place = place;
      this.pairs = pairs;
      this.pages = 1;
      this.list = made("div");
      this.told = made("p", { class: "soft", role: "status" });
      this.search = made("input", { type: "search" });
      this.selects = pairs.fields.map((name) => choice(["all", ...pairs.values[name]]));
      this.group = choice(["all", ...pairs.values.group]);
      this.order = choice(pairs.models ? ["as asked", "models furthest apart first"] : ["as asked", "highest gap first", "lowest gap first", "largest gap first"]);
      this.more = made("button", { type: "button" }, "more");
      this.more.addEventListener("click", () => { this.pages += 1; this.draw(); });
      this.initial = pairs.fields.map((name) => (name === "wording" && pairs.values[name].includes("as asked") ? "as asked" : "all"));
      this.initial.forEach((value, place) => { this.selects[place].value = value; });
      const tools = made("div", { class: "tools" }, label("search texts", this.search));
      pairs.titles.forEach((title, place) => tools.append(label(title, this.selects[place])));
      tools.append(label("group", this.group), label("order", this.order));
      place.append(tools, made("p", { class: "soft" }, `Scores and gaps ${pairs.scale === 1 ? "in the unit" : "in points, hundredths of the unit"}: ${pairs.unit}. Gap: ${pairs.sides[0]} minus ${pairs.sides[1]}. Marked: what differs, or the place that is filled.`), this.told, this.list, made("div", { class: "tools more" }, this.more));
      for (const one of [this.search, ...this.selects, this.group, this.order]) one.addEventListener("input", () => { this.pages = 1; this.draw(); });
    }
    /** What a link asks for. @param {URLSearchParams} wanted */
    show(wanted) {
      this.search.value = wanted.get("search") || "";
      this.pairs.fields.forEach((name, place) => { this.selects[place].value = wanted.get(name) || this.initial[place]; });
      this.group.value = wanted.get("group") || "all";
      this.order.value = wanted.get("order") || "as asked";
      for (const one of [...this.selects, this.group, this.order]) if (one.selectedIndex < 0) one.selectedIndex = 0;
      this.pages = 1;
      this.draw();
    }
    chosen() {
      const { pairs } = this;
      const wanted = this.selects.map((one) => one.selectedIndex - 1);
      const group = this.group.selectedIndex - 1;
      const words = this.search.value.toLowerCase();
      const kept = pairs.entries.filter((entry) =>
        wanted.every((code, place) => code < 0 || entry[0][place] === code) &&
        (group < 0 || entry[1].some((one) => one[0] === group)) &&
        (!words || entry[1].some((one) => pairs.values.text[one[1]].toLowerCase().includes(words))));
      if (this.order.selectedIndex === 0) return kept;
      const sign = this.order.value === "lowest gap first" ? 1 : -1;
      const size = this.order.value === "largest gap first" ? Math.abs : Number;
      const worths = kept.map((entry) => ({ entry, value: size(worth(pairs, entry)) }));
      worths.sort(({ value: a }, { value: b }) => (Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : sign * (a - b)));
      return worths.map(({ entry }) => entry);
    }
    draw() {
      const kept = this.chosen();
      const last = Math.min(this.pages * PER_PAGE, kept.length);
      this.list.replaceChildren(...kept.slice(0, last).map((entry) => pairNode(this.pairs, entry)));
      this.told.textContent = kept.length ? `${last} of ${kept.length} (${this.pairs.entries.length} in all)` : "None is like that.";
      this.more.hidden = last >= kept.length;
    }
  }

  /** @param {string} text @param {HTMLElement} tool */
  const label = (text, tool) => made("label", {}, text, tool);

  /** Each value once. @param {string[]} values */
  function choice(values) {
    return made("select", {}, ...[...new Set(values)].map((one) => made("option", { value: one }, one.replaceAll("_", " "))));
  }

  /** @type {Map<Element, Promise<Explorer>>} */
  const explorers = new Map();

  /** @param {HTMLDetailsElement} place */
  function explorer(place) {
    const known = explorers.get(place);
    if (known) return known;
    const opened = unpacked(place.dataset.items ?? "").then((pairs) => new Explorer(place, pairs));
    explorers.set(place, opened);
    opened.then((one) => one.draw(), () => place.append(made("p", {}, "This browser cannot unpack the pairs; they are in the folder of the run, beside this page.")));
    return opened;
  }

  // --- the page -------------------------------------------------------------------------------------

  /** Open what a link points to; of pairs those that it asks for. */
  function follow() {
    const [id, query] = location.hash.slice(1).split(/\?(.*)/s); // names of parts need no decoding
    const target = document.getElementById(id);
    if (!target) return;
    for (let node = /** @type {HTMLElement|null} */ (target); node; node = node.parentElement) if (node instanceof HTMLDetailsElement) node.open = true;
    if (target.classList.contains("pairs")) {
      explorer(/** @type {HTMLDetailsElement} */ (target)).then((one) => one.show(new URLSearchParams(query || "")), () => undefined);
    }
    target.scrollIntoView();
  }

  /** Each row of a chart links to its pairs. @param {HTMLElement} name */
  function linked(name) {
    const place = name.closest("section")?.querySelector("details.pairs");
    if (!place || !name.dataset.find) return;
    name.replaceChildren(made("a", { href: `#${place.id}?${name.dataset.find}`, title: "its pairs" }, name.textContent || ""));
  }

  document.documentElement.classList.add("scripted");
  document.querySelectorAll("table.sortable").forEach((one) => sortable(/** @type {HTMLTableElement} */ (one)));
  document.querySelectorAll("th[data-find]").forEach((one) => linked(/** @type {HTMLElement} */ (one)));
  document.querySelectorAll("details.pairs").forEach((one) => one.addEventListener("toggle", () => {
    const place = /** @type {HTMLDetailsElement} */ (one);
    if (place.open) explorer(place);
  }));
  /** @type {HTMLDetailsElement[]} */
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details")].filter((one) => !one.open && !one.classList.contains("pairs"));
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
  addEventListener("hashchange", follow);
  follow();
})();
