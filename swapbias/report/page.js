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
  /** @typedef {{fields: string[], titles: string[], labels: Object<string, string[]>, values: Object<string, string[]>, tokens: [string, number][][], contrasts: Contrast[], scale: number, start: number, unit: string, entries: Entry[]}} Pairs */

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

  /** Turns of a chat, each with its role; any other text is one turn without a role. @param {string} text @returns {[string, string][]} */
  function turns(text) {
    const [before, ...parts] = text.split(/(?:^|\n)<\|(system|user|assistant)\|>\n/);
    if (before || !parts.length) return [["", text]];
    return Array.from({ length: parts.length / 2 }, (_, at) => [parts[2 * at], parts[2 * at + 1]]);
  }

  /** A line of soft text. @param {string} line */
  const facts = (line) => made("p", { class: "facts", dir: "auto" }, line);
  /** What somebody says in a chat. @param {string} role @param {Node} content */
  const turnNode = (role, content) => (role ? made("div", { class: `turn ${role}` }, made("span", { class: "role" }, role), content) : made("p", {}, content));

  /** A text of a pair with its scores and what the model gave; what the others lack is marked. @param {Pairs} pairs @param {Prompt[]} prompts @param {string} text @param {string[]} texts @param {string[]} answers */
  function versionNode(pairs, prompts, text, texts, answers) {
    const { values, scale, start } = pairs;
    const ofText = prompts.filter((one) => values.text[one[1]] === text);
    const scores = ofText.map((one) => `${plain(values.group[one[0]])} ${number(one[2] === null ? null : (one[2] - start) * scale, false)}`);
    const node = made("div", { class: "version" }, facts(scores.join(", ")));
    const others = texts.filter((one) => one !== text);
    turns(text).forEach(([role, content], at) => {
      const elsewhere = others.map((one) => turns(one)[at]?.[1] ?? "");
      node.append(turnNode(role, marked(content, elsewhere)));
    });
    const tokens = ofText.map((one) => pairs.tokens[one[3]]).find((one) => one && one.length);
    if (tokens) node.append(facts(`most likely words, in ${scale === 1 ? "shares" : "points"}: ` + tokens.map(([word, p]) => `${word} ${scale === 1 ? p : number(100 * p, false)}`).join(", ")));
    else for (const answer of new Set(ofText.map((one) => (values.answer || [])[one[4]]).filter(Boolean)))
      node.append(turnNode("answer", marked(answer, answers.filter((one) => one !== answer))));
    return node;
  }

  /** A pair with its gaps; where a contrast is chosen, of its two groups alone. @param {Pairs} pairs @param {Entry} entry @param {Contrast[]} contrasts @param {boolean} chosen */
  function pairNode(pairs, entry, contrasts, chosen) {
    const { values, titles, fields } = pairs;
    const node = made("div", { class: "pair" });
    for (const contrast of contrasts) {
      const size = gap(pairs, entry, contrast);
      const names = chosen || pairs.contrasts.length > 1 ? `${subtraction(contrast)} ` : "";
      if (!Number.isNaN(size)) node.append(made("p", {}, made("strong", {}, `gap ${names}${number(size, true)}`), pairs.scale === 1 ? "" : " points"));
    }
    const groups = chosen ? contrasts.flat() : values.group;
    const prompts = entry[1].filter((one) => groups.includes(values.group[one[0]]));
    const texts = [...new Set(prompts.map((one) => values.text[one[1]]))];
    const answers = [...new Set(prompts.map((one) => (values.answer || [])[one[4]]).filter(Boolean))];
    node.append(...texts.map((text) => versionNode(pairs, prompts, text, texts, answers)));
    node.append(facts(fields.map((name, place) => `${titles[place]}: ${label(pairs, name, entry[0][place])}`).join(" · ")));
    return node;
  }

  /** The words for a value of a field: of a template its text. @param {Pairs} pairs @param {string} name @param {number} code */
  const label = (pairs, name, code) => pairs.labels[name]?.[code] ?? plain(pairs.values[name][code]);

  /** Every two groups: those that the study compares first. @param {Pairs} pairs @returns {Contrast[]} */
  function everyContrast(pairs) {
    const groups = pairs.values.group;
    const compared = new Set(pairs.contrasts.flatMap(([a, b]) => [`${a}\n${b}`, `${b}\n${a}`]));
    const rest = groups.flatMap((a, at) => groups.slice(at + 1).map((b) => /** @type {Contrast} */ ([a, b])));
    return [...pairs.contrasts, ...rest.filter(([a, b]) => !compared.has(`${a}\n${b}`))];
  }

  /** Each value once, with its words. @param {string[]} values @param {(value: string, at: number) => string} [words] */
  const choice = (values, words) => made("select", {}, ...[...new Set(values)].map((one, at) => made("option", { value: one }, words ? words(one, at) : plain(one))));

  /** The tools above the pairs; gives what shows the pairs that a link names. @param {HTMLDetailsElement} place @param {Pairs} pairs */
  function explorer(place, pairs) {
    const [list, status, search] = [made("div"), made("p", { class: "soft", role: "status" }), made("input", { type: "search" })];
    const everyTwo = everyContrast(pairs);
    const several = everyTwo.length > 1;
    const names = [...pairs.fields, ...(several ? ["contrast"] : []), "order"];
    const contrastChoice = choice(["all", ...everyTwo.map(subtraction)]);
    const orders = ["largest gap first", "highest gap first", "lowest gap first", "study order"];
    const selects = [...pairs.fields.map((name) => choice(["all", ...pairs.values[name]], (one, at) => (at ? label(pairs, name, at - 1) : one))), ...(several ? [contrastChoice] : []), choice(orders)];
    const initial = names.map((name) => (name === "order" ? orders[0] : name === "wording" && pairs.values[name].includes("original") ? "original" : "all"));
    const more = made("button", { type: "button" }, "more");
    let pages = 1;
    function draw() {
      const [words, wanted] = [search.value.toLowerCase(), selects[selects.length - 1].value];
      const chosen = contrastChoice.selectedIndex;
      const contrasts = chosen < 1 ? pairs.contrasts : [everyTwo[chosen - 1]];
      const found = pairs.entries.filter((entry) =>
        (chosen < 1 || !Number.isNaN(gap(pairs, entry, contrasts[0]))) &&
        entry[0].every((code, at) => selects[at].selectedIndex < 1 || code === selects[at].selectedIndex - 1) &&
        (!words || entry[1].some((one) => pairs.values.text[one[1]].toLowerCase().includes(words))));
      const sign = wanted === "lowest gap first" ? 1 : -1;
      if (wanted !== "study order") found.sort((a, b) => order(ordering(pairs, a, contrasts, wanted), ordering(pairs, b, contrasts, wanted), sign));
      const last = Math.min(pages * PER_PAGE, found.length);
      list.replaceChildren(...found.slice(0, last).map((entry) => pairNode(pairs, entry, contrasts, chosen > 0)));
      status.textContent = found.length ? `${last} of ${found.length} (${pairs.entries.length} in all)` : "No pair matches.";
      more.hidden = last >= found.length;
    }
    more.addEventListener("click", () => { pages += 1; draw(); });
    [search, ...selects].forEach((one) => one.addEventListener("input", () => { pages = 1; draw(); }));
    const labels = [...pairs.titles, ...(several ? ["groups"] : []), "order"].map((title, at) => made("label", {}, title, selects[at]));
    const unit = `Scores and gaps are in ${pairs.scale === 1 ? "this unit" : "points, hundredths of this unit"}: ${pairs.unit}. A gap is ${pairs.contrasts.map(subtraction).join(", or ")}. Marks show what differs, or the place that is filled.`;
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
    const inside = target?.querySelector(":scope > details.question"); // of a question
    for (let node = inside ?? target; node; node = node.parentElement) if (node instanceof HTMLDetailsElement) node.open = true;
    if (target?.classList.contains("pairs")) show(/** @type {HTMLDetailsElement} */ (target), query || "");
    target?.scrollIntoView();
  }

  document.documentElement.classList.add("scripted");
  document.querySelectorAll("table.sortable").forEach((one) => sortable(/** @type {HTMLTableElement} */ (one)));
  document.querySelectorAll("table").forEach((one) => { if (!one.closest("#numbers, #settings, .compared .summary")) fold(one); });
  /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll("details.pairs")).forEach((place) =>
    place.addEventListener("toggle", () => { if (place.open) show(place); }));
  addEventListener("hashchange", follow);
  follow();
})();
