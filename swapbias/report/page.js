// @ts-check
// What the report does beyond its text: sorting, and all scored pairs, searched and filtered.
// Texts of others only ever become text nodes. Nothing is fetched: the pairs stand in the page, compressed.
"use strict";
(() => {
  const PER_PAGE = 25;
  const FOLDED_AFTER = 10; // rows, as in page.css

  /** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Object<string, string>} [attributes] @param {...(Node|string)} inside */
  function made(tag, attributes, ...inside) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...inside.map((one) => (typeof one === "string" ? shown(one) : one)));
    return node;
  }

  /** A text with a mark for what cannot be seen and for what turns the direction of writing. @param {string} text */
  const shown = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

  const [plainly, withSign] = [/** @type {const} */ ("negative"), /** @type {const} */ ("exceptZero")].map((signDisplay) =>
    new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1, useGrouping: false, signDisplay }));
  /** @param {number|null} value @param {boolean} signed */
  const number = (value, signed) => (value === null ? "–" : (signed ? withSign : plainly).format(value).replace("-", "−"));

  /** Values in order, those that are missing last. @param {number|string} a @param {number|string} b @param {number} sign */
  function order(a, b, sign) {
    if (typeof a === "string" || typeof b === "string") return sign * String(a).localeCompare(String(b));
    return Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : sign * (a - b);
  }

  /** Sort the rows of each part by a column, at a second click the other way, at a third as they were. @param {HTMLTableElement} table */
  function sortable(table) {
    const heads = [...(table.tHead?.rows[0].cells ?? [])];
    const before = [...table.tBodies].map((body) => [...body.rows].filter((row) => !row.classList.contains("group")));
    heads.forEach((head, place) => {
      if (head.classList.contains("pic")) return;
      const worth = (/** @type {HTMLTableRowElement} */ row) => {
        const { dataset, textContent } = row.cells[place];
        return dataset.number === undefined ? textContent || "" : dataset.number === "" ? NaN : Number(dataset.number);
      };
      const button = made("button", { type: "button" }, head.textContent || "");
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort") || ""] ?? "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        if (next !== "none") head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        const sorted = before.map((rows) => (next === "none" ? rows : [...rows].sort((a, b) => order(worth(a), worth(b), sign))));
        [...table.tBodies].forEach((body, part) => body.append(...sorted[part]));
      });
    });
  }

  /** Hide the rows of a long table behind a button, all but the first ten of each part. @param {HTMLTableElement} table */
  function fold(table) {
    const counts = [...table.tBodies].map((body) => [...body.rows].filter((row) => !row.classList.contains("group")).length);
    const hidden = counts.reduce((sum, count) => sum + Math.max(0, count - FOLDED_AFTER), 0);
    if (!hidden) return;
    table.classList.add("folded");
    const button = made("button", { type: "button", class: "unfold" }, `Show ${hidden} more ${hidden === 1 ? "row" : "rows"}`);
    button.addEventListener("click", () => { table.classList.remove("folded"); button.remove(); });
    table.after(button);
  }

  /** Codes of a prompt: group, text, its score, tokens, answer. @typedef {[number, number, number|null, number, number]} Prompt */
  /** A group, and the one that is subtracted from it. @typedef {[string, string]} Contrast */
  /** Codes of the fields, then the prompts. @typedef {[number[], Prompt[]]} Entry */
  /** @typedef {{fields: string[], titles: string[], values: Object<string, string[]>, tokens: [string, number][][], contrasts: Contrast[], scale: number, start: number, unit: string, entries: Entry[]}} Pairs */

  /** @param {string} id @returns {Promise<Pairs>} */
  async function unpacked(id) {
    const content = (document.getElementById(id)?.textContent || "").split(",")[1];
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  /** A text with what stands between the words with which all texts begin and end, or its mask, marked. @param {string} text @param {string[]} others */
  function marked(text, others) {
    let parts = text.split(/(<mask>|\[MASK\])/);
    if (others.length) {
      const [a, ...rest] = [text, ...others].map((one) => one.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || []);
      const shortest = Math.min(a.length, ...rest.map((one) => one.length));
      let [start, end] = [0, 0];
      while (start < a.length && rest.every((b) => a[start] === b[start])) start++;
      while (end < shortest - start && rest.every((b) => a[a.length - 1 - end] === b[b.length - 1 - end])) end++;
      parts = [a.slice(0, start), a.slice(start, a.length - end), a.slice(a.length - end)].map((part) => part.join(""));
    }
    return made("span", { class: "text", dir: "auto" }, ...parts.map((one, place) => (place % 2 && one ? made("mark", {}, one) : one)));
  }

  /** The gap of a pair between two groups in points, NaN where it has none. @param {Pairs} pairs @param {Entry} entry @param {Contrast} contrast */
  function gap(pairs, entry, contrast) {
    const [first, second] = contrast.map((side) => entry[1].find((one) => pairs.values.group[one[0]] === side)?.[2] ?? NaN);
    return (first - second) * pairs.scale;
  }

  /** Of the gaps of a pair the one that an order reads, NaN without any. @param {Pairs} pairs @param {Entry} entry @param {Contrast[]} contrasts @param {string} wanted */
  function ordering(pairs, entry, contrasts, wanted) {
    const gaps = contrasts.map((contrast) => gap(pairs, entry, contrast)).filter((one) => !Number.isNaN(one));
    if (!gaps.length) return NaN;
    if (wanted === "largest gap first") return Math.max(...gaps.map(Math.abs));
    return wanted === "lowest gap first" ? Math.min(...gaps) : Math.max(...gaps);
  }

  const plain = (/** @type {string} */ name) => name.replaceAll("_", " ");
  /** @param {Contrast} contrast */
  const subtraction = ([group, reference]) => `${plain(group)} minus ${plain(reference)}`;

  /** A pair with its gaps; where a contrast is chosen, of its two groups alone. @param {Pairs} pairs @param {Entry} entry @param {Contrast[]} contrasts */
  function pairNode(pairs, entry, contrasts) {
    const { values, scale, start, titles, fields } = pairs;
    const facts = (/** @type {string} */ line) => made("p", { class: "facts", dir: "auto" }, line);
    const node = made("div", { class: "pair" });
    const groups = contrasts.length < pairs.contrasts.length ? contrasts.flat() : values.group;
    const prompts = entry[1].filter((one) => groups.includes(values.group[one[0]]));
    const texts = [...new Set(prompts.map((one) => values.text[one[1]]))];
    for (const text of texts) {
      const mine = prompts.filter((one) => values.text[one[1]] === text);
      const tokens = mine.map((one) => pairs.tokens[one[3]]).find((one) => one && one.length);
      const answers = [...new Set(mine.map((one) => (values.answer || [])[one[4]]).filter(Boolean))];
      node.append(made("p", {}, marked(text, texts.filter((one) => one !== text))));
      if (tokens) node.append(facts("likeliest: " + tokens.map(([word, p]) => `${word} ${p}`).join(", ")));
      else if (answers.length) node.append(facts("answer: " + answers.join(" / ")));
    }
    node.append(facts(prompts.map((one) => `${plain(values.group[one[0]])} ${number(one[2] === null ? null : (one[2] - start) * scale, false)}`).join(", ")));
    for (const contrast of contrasts) {
      const found = gap(pairs, entry, contrast);
      const names = pairs.contrasts.length > 1 ? `${subtraction(contrast)} ` : "";
      if (!Number.isNaN(found)) node.append(made("p", {}, made("strong", {}, `gap ${names}${number(found, true)}`)));
    }
    node.append(facts(fields.map((name, place) => `${titles[place]}: ${plain(values[name][entry[0][place]])}`).join(" · ")));
    return node;
  }

  /** Each value once. @param {string[]} values */
  const choice = (values) => made("select", {}, ...[...new Set(values)].map((one) => made("option", { value: one }, plain(one))));

  /** The tools above the pairs; gives what shows the pairs that a link names. @param {HTMLDetailsElement} place @param {Pairs} pairs */
  function explorer(place, pairs) {
    const [list, status, search] = [made("div"), made("p", { class: "soft", role: "status" }), made("input", { type: "search" })];
    const several = pairs.contrasts.length > 1;
    const names = [...pairs.fields, ...(several ? ["contrast"] : []), "order"];
    const contrastChoice = choice(["all", ...pairs.contrasts.map(subtraction)]);
    const orders = ["study order", "highest gap first", "lowest gap first", "largest gap first"];
    const selects = [...pairs.fields.map((name) => choice(["all", ...pairs.values[name]])), ...(several ? [contrastChoice] : []), choice(orders)];
    const initial = names.map((name) => (name === "order" ? orders[0] : name === "wording" && pairs.values[name].includes("original") ? "original" : "all"));
    const more = made("button", { type: "button" }, "more");
    let pages = 1;
    function draw() {
      const [words, wanted] = [search.value.toLowerCase(), selects[selects.length - 1].value];
      const chosen = contrastChoice.selectedIndex;
      const contrasts = chosen < 1 ? pairs.contrasts : [pairs.contrasts[chosen - 1]];
      const found = pairs.entries.filter((entry) =>
        (chosen < 1 || !Number.isNaN(gap(pairs, entry, contrasts[0]))) &&
        entry[0].every((code, at) => selects[at].selectedIndex < 1 || code === selects[at].selectedIndex - 1) &&
        (!words || entry[1].some((one) => pairs.values.text[one[1]].toLowerCase().includes(words))));
      const sign = wanted === "lowest gap first" ? 1 : -1;
      if (wanted !== orders[0]) found.sort((a, b) => order(ordering(pairs, a, contrasts, wanted), ordering(pairs, b, contrasts, wanted), sign));
      const last = Math.min(pages * PER_PAGE, found.length);
      list.replaceChildren(...found.slice(0, last).map((entry) => pairNode(pairs, entry, contrasts)));
      status.textContent = found.length ? `${last} of ${found.length} (${pairs.entries.length} in all)` : "No pair matches.";
      more.hidden = last >= found.length;
    }
    more.addEventListener("click", () => { pages += 1; draw(); });
    [search, ...selects].forEach((one) => one.addEventListener("input", () => { pages = 1; draw(); }));
    const labels = [...pairs.titles, ...(several ? ["groups"] : []), "order"].map((title, at) => made("label", {}, title, selects[at]));
    const unit = `Scores and gaps ${pairs.scale === 1 ? "in the unit" : "in points, hundredths of the unit"}: ${pairs.unit}. Gap: ${pairs.contrasts.map(subtraction).join(", ")}. Marked: what differs, or the place that is filled.`;
    place.append(made("div", { class: "tools" }, made("label", {}, "search texts", search), ...labels), made("p", { class: "soft" }, unit), status, list, made("div", { class: "tools more" }, more));
    return (/** @type {URLSearchParams} */ link) => {
      search.value = link.get("search") || "";
      selects.forEach((one, at) => {
        one.value = link.get(names[at]) || initial[at];
        if (one.selectedIndex < 0) one.selectedIndex = 0;
      });
      pages = 1;
      draw();
    };
  }

  /** @type {Map<Element, Promise<void|((link: URLSearchParams) => void)>>} */
  const explorers = new Map();
  /** Show the pairs that a link names, or at first all. @param {HTMLDetailsElement} place @param {string} [query] */
  function show(place, query) {
    if (query === undefined && explorers.has(place)) return;
    const opened = explorers.get(place) ?? unpacked(place.dataset.items ?? "").then((pairs) => explorer(place, pairs)).catch(() =>
      place.append(made("p", {}, "This browser cannot unpack the pairs. They are in the folder of the run.")));
    explorers.set(place, opened);
    opened.then((draw) => draw?.(new URLSearchParams(query || "")));
  }

  /** Open what a link points to; of pairs those that it asks for. */
  function follow() {
    const [id, query] = location.hash.slice(1).split(/\?(.*)/s); // names of parts need no decoding
    const target = document.getElementById(id);
    if (target instanceof HTMLDetailsElement) target.open = true;
    if (target?.classList.contains("pairs")) show(/** @type {HTMLDetailsElement} */ (target), query || "");
    target?.scrollIntoView();
  }

  document.documentElement.classList.add("scripted");
  document.querySelectorAll("table.sortable").forEach((one) => sortable(/** @type {HTMLTableElement} */ (one)));
  document.querySelectorAll("table").forEach((one) => { if (!one.closest("#numbers, #settings")) fold(one); });
  /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll("details.pairs")).forEach((place) =>
    place.addEventListener("toggle", () => { if (place.open) show(place); }));
  addEventListener("hashchange", follow);
  follow();
})();
