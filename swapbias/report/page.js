// @ts-check
// What the report does beyond its text: sorting, links into closed parts, and all scored pairs, searched and filtered.
// Texts of others only ever become text nodes. Nothing is fetched: the pairs stand in the page, compressed.
"use strict";
(() => {
  const PER_PAGE = 25;
  const LONGEST = 400; // words of a text that are compared for the swapped slot

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

  /** @param {HTMLTableElement} table */
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
        [...table.tBodies].forEach((body, part) => arrange(body, before[part], place, next));
      });
    });
  }

  /** Values that are missing come last. @param {HTMLTableSectionElement} body @param {HTMLTableRowElement[]} rows @param {number} place @param {string} order */
  function arrange(body, rows, place, order) {
    const fixed = rows.filter((row) => row.classList.contains("group"));
    const moved = rows.filter((row) => !row.classList.contains("group"));
    const sign = order === "descending" ? -1 : 1;
    /** @param {HTMLTableRowElement} row */
    const worth = (row) => {
      const cell = row.cells[place];
      if (cell.dataset.number === undefined) return cell.textContent || "";
      return cell.dataset.number === "" ? NaN : Number(cell.dataset.number);
    };
    if (order !== "none") {
      moved.sort((one, other) => {
        const [a, b] = [worth(one), worth(other)];
        if (typeof a === "string" || typeof b === "string") return sign * String(a).localeCompare(String(b));
        if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
        return sign * (a - b);
      });
    }
    body.append(...fixed, ...moved);
  }

  // --- pairs ----------------------------------------------------------------------------------------

  /** Codes of a prompt: group, text, its score, tokens, answer. @typedef {[number, number, number|null, number, number]} Prompt */
  /** Codes of the fields, then the prompts. @typedef {[number[], Prompt[]]} Entry */
  /** @typedef {{fields: string[], titles: string[], values: Object<string, string[]>, tokens: [string, number][][], sides: string[], scale: number, unit: string, entries: Entry[]}} Pairs */

  /** @param {string} id @returns {Promise<Pairs>} */
  async function unpacked(id) {
    const content = (document.getElementById(id)?.textContent || "").split(",")[1];
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  /** Which words of two texts the other one lacks. @param {string} one @param {string} other @returns {[string, boolean][]} */
  function compared(one, other) {
    /** @param {string} text @returns {string[]} */
    const cut = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];
    const [a, b] = [cut(one), cut(other)];
    if (a.length > LONGEST || b.length > LONGEST) return [[one, false]];
    const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
    /** @type {[string, boolean][]} */
    const pieces = [];
    for (let i = 0, j = 0; i < a.length; ) {
      if (j < b.length && a[i] === b[j]) pieces.push([a[i++], false]), j++;
      else if (j < b.length && common[i][j + 1] > common[i + 1][j]) j++;
      else pieces.push([a[i++], true]);
    }
    return pieces;
  }

  /** @param {string} text @param {string} other a text to mark the differences from; blank to mark a mask */
  function marked(text, other) {
    const atMask = () => text.split(/(<mask>|\[MASK\])/).map((one, place) => /** @type {[string, boolean]} */ ([one, place % 2 === 1]));
    const parts = (other ? compared(text, other) : atMask()).map(([one, differs]) => (differs ? made("mark", {}, one) : shown(one)));
    return made("span", { class: "text", dir: "auto" }, ...parts);
  }

  /** The gap of a pair in points; null where it has none. @param {Pairs} pairs @param {Entry} entry */
  function gap(pairs, entry) {
    /** @param {string} side */
    const score = (side) => entry[1].find((one) => pairs.values.group[one[0]] === side)?.[2] ?? null;
    const [first, second] = pairs.sides.map(score);
    return first === null || second === null ? null : (first - second) * pairs.scale;
  }

  /** @param {Pairs} pairs @param {Entry} entry */
  function pairNode(pairs, entry) {
    const facts = pairs.fields.map((name, place) => `${pairs.titles[place]}: ${pairs.values[name][entry[0][place]].replaceAll("_", " ")}`);
    const difference = gap(pairs, entry);
    const node = made("div", { class: "pair" });
    const texts = [...new Set(entry[1].map((one) => pairs.values.text[one[1]]))];
    for (const text of texts) {
      const mine = entry[1].filter((one) => pairs.values.text[one[1]] === text);
      node.append(made("p", {}, marked(text, texts.length === 2 ? texts[1 - texts.indexOf(text)] : "")));
      const scores = mine.map((one) => `${pairs.values.group[one[0]].replaceAll("_", " ")} ${number(one[2] === null ? null : one[2] * pairs.scale, 1, false)}`);
      node.append(made("p", { class: "facts" }, scores.join(" · ")));
      const tokens = mine.map((one) => pairs.tokens[one[3]]).find((one) => one && one.length);
      const answers = [...new Set(mine.map((one) => (pairs.values.answer || [])[one[4]]).filter(Boolean))];
      if (tokens) node.append(made("p", { class: "facts" }, "likeliest: " + tokens.map(([word, p]) => `${word} ${p}`).join(", ")));
      else if (answers.length) node.append(made("p", { class: "facts" }, "answer: " + answers.join(" / ")));
    }
    if (difference !== null) node.append(made("p", {}, made("strong", {}, `gap ${number(difference, 1, true)}`)));
    node.append(made("p", { class: "facts" }, facts.join(" · ")));
    return node;
  }

  /** The tools above the pairs, what they are set to, and the pairs that this leaves. */
  class Explorer {
    /** @param {HTMLDetailsElement} place @param {Pairs} pairs */
    constructor(place, pairs) {
      this.place = place;
      this.pairs = pairs;
      this.page = 0;
      this.list = made("div");
      this.told = made("p", { class: "soft", role: "status" });
      this.search = made("input", { type: "search" });
      this.selects = pairs.fields.map((name) => this.select(["all", ...pairs.values[name]]));
      this.group = this.select(["all", ...pairs.values.group]);
      this.order = this.select(["as asked", "highest gap first", "lowest gap first", "largest gap first"]);
      this.before = this.button("before", -1);
      this.after = this.button("more", 1);
      this.initial = pairs.fields.map((name) => (name === "wording" && pairs.values[name].includes("as asked") ? "as asked" : "all"));
      this.initial.forEach((value, place) => { this.selects[place].value = value; });
      const tools = made("div", { class: "tools" }, label("search texts", this.search));
      pairs.titles.forEach((title, place) => tools.append(label(title, this.selects[place])));
      tools.append(label("group", this.group), label("order", this.order));
      place.append(tools, made("p", { class: "soft" }, `Scores and gaps ${pairs.scale === 1 ? "in the unit" : "in points, hundredths of the unit"}: ${pairs.unit}. Gap: ${pairs.sides[0]} minus ${pairs.sides[1]}. Marked: what differs, or the place that is filled.`), this.told, this.list, made("div", { class: "tools more" }, this.before, this.after));
      for (const one of [this.search, ...this.selects, this.group, this.order]) one.addEventListener("input", () => this.set());
    }
    /** @param {string[]} values */
    select(values) {
      return made("select", {}, ...values.map((one) => made("option", { value: one }, one.replaceAll("_", " "))));
    }
    /** @param {string} text @param {number} step */
    button(text, step) {
      const button = made("button", { type: "button" }, text);
      button.addEventListener("click", () => { this.page += step; this.draw(); });
      return button;
    }
    set() {
      this.page = 0;
      this.draw();
      const chosen = new URLSearchParams();
      if (this.search.value) chosen.set("search", this.search.value);
      this.pairs.fields.forEach((name, place) => this.selects[place].value !== this.initial[place] && chosen.set(name, this.selects[place].value));
      if (this.group.value !== "all") chosen.set("group", this.group.value);
      if (this.order.value !== "as asked") chosen.set("order", this.order.value);
      history.replaceState(null, "", `#${this.place.id}?${chosen}`);
    }
    /** What a link asks for. @param {URLSearchParams} wanted */
    show(wanted) {
      this.search.value = wanted.get("search") || "";
      this.pairs.fields.forEach((name, place) => { this.selects[place].value = wanted.get(name) || this.initial[place]; });
      this.group.value = wanted.get("group") || "all";
      this.order.value = wanted.get("order") || "as asked";
      for (const one of [...this.selects, this.group, this.order]) if (one.selectedIndex < 0) one.selectedIndex = 0;
      this.page = 0;
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
      /** @param {Entry} entry */
      const worth = (entry) => { const found = gap(pairs, entry) ?? NaN; return this.order.value === "largest gap first" ? Math.abs(found) : found; };
      const worths = kept.map((entry) => ({ entry, worth: worth(entry) }));
      worths.sort(({ worth: a }, { worth: b }) => (Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : sign * (a - b)));
      return worths.map(({ entry }) => entry);
    }
    draw() {
      const kept = this.chosen();
      const start = this.page * PER_PAGE;
      this.list.replaceChildren(...kept.slice(start, start + PER_PAGE).map((entry) => pairNode(this.pairs, entry)));
      const last = Math.min(start + PER_PAGE, kept.length);
      this.told.textContent = kept.length ? `${start + 1} to ${last} of ${kept.length} (${this.pairs.entries.length} in all)` : "None is like that.";
      this.before.disabled = this.page === 0;
      this.after.disabled = last >= kept.length;
    }
  }

  /** @param {string} text @param {HTMLElement} tool */
  const label = (text, tool) => made("label", {}, text, tool);

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

  /** Open what a link points to. */
  function follow() {
    const [id, query] = decodeURI(location.hash.slice(1)).split(/\?(.*)/s);
    const target = document.getElementById(id);
    if (!target) return;
    for (let node = /** @type {HTMLElement|null} */ (target); node; node = node.parentElement) if (node instanceof HTMLDetailsElement) node.open = true;
    if (target.classList.contains("pairs")) {
      explorer(/** @type {HTMLDetailsElement} */ (target)).then((one) => one.show(new URLSearchParams(query || "")));
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
