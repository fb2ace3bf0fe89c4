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

  /** A button that spreads the values of a chart over the whole width, where they stand close together. @param {HTMLTableElement} table */
  function zoomable(table) {
    const marks = [...table.querySelectorAll(".strip svg, .strip .ci")];
    const placed = [...table.querySelectorAll(".pic [x], .pic [x1]")].map((node) => ({ node, kept: percents(node) }));
    const ends = marks.flatMap((node) => { const { x, x1, x2 } = percents(node); return [x, x1, x2].filter((one) => one !== undefined); });
    const low = Math.min(...ends), high = Math.max(...ends);
    if (table.querySelectorAll("tbody th[scope=row]").length < 8 || high - low > 60 || high <= low) return;
    const button = made("button", { type: "button", "aria-pressed": "false" }, "zoom to the values");
    table.before(made("p", { class: "tools" }, button));
    button.addEventListener("click", () => {
      const zoomed = table.classList.toggle("zoomed");
      button.setAttribute("aria-pressed", String(zoomed));
      const at = (/** @type {number} */ share) => (zoomed ? 4 + (92 * (share - low)) / (high - low) : share);
      for (const { node, kept } of placed) {
        for (const [name, share] of Object.entries(kept)) {
          const moved = name === "width" ? at((kept.x ?? 0) + share) - at(kept.x ?? 0) : at(share);
          node.setAttribute(name, `${moved.toFixed(2)}%`);
        }
      }
    });
  }

  /** Where a mark stands, in percent of the width of its picture. @param {Element} node @returns {Object<string, number>} */
  function percents(node) {
    const names = ["x", "x1", "x2", "width"].filter((name) => node.getAttribute(name)?.endsWith("%"));
    return Object.fromEntries(names.map((name) => [name, parseFloat(node.getAttribute(name) ?? "")]));
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
    if (pairs.models) return spread(gapsByModel(pairs, entry));
    /** @param {string} side */
    const score = (side) => entry[1].find((one) => pairs.values.group[one[0]] === side)?.[2] ?? null;
    const [first, second] = pairs.sides.map(score);
    return first === null || second === null ? null : (first - second) * pairs.scale;
  }

  /** Of compared models: the gap of a pair in points by each, null where it has none. @param {Pairs} pairs @param {Entry} entry @returns {(number|null)[]} */
  function gapsByModel(pairs, entry) {
    const [first, second] = pairs.sides.map((side) => entry[1].find((one) => pairs.values.group[one[0]] === side)?.[2]);
    return (pairs.models ?? []).map((_, place) => first && second && first[place] !== null && second[place] !== null ? (first[place] - second[place]) * pairs.scale : null);
  }

  /** How far apart models are. @param {(number|null)[]} gaps */
  function spread(gaps) {
    const known = gaps.flatMap((one) => (one === null ? [] : [one]));
    return known.length > 1 ? Math.max(...known) - Math.min(...known) : null;
  }

  /** What each of the compared models gave a pair; of many models the gaps alone. @param {Pairs} pairs @param {Entry} entry */
  function modelNodes(pairs, entry) {
    const gaps = gapsByModel(pairs, entry);
    const models = pairs.models ?? [];
    const many = models.length > 12;
    const lines = models.map((name, place) => {
      const scores = entry[1].map((one) => `${pairs.values.group[one[0]].replaceAll("_", " ")} ${number(one[2][place] === null ? null : one[2][place] * pairs.scale, 1, false)}`).join(", ");
      const found = gaps[place];
      return `${name}: ${found === null ? scores : number(found, 1, true) + (many ? "" : ` (${scores})`)}`;
    });
    return (many ? [lines.join(" · ")] : lines).map((line) => made("p", { class: "facts", dir: "auto" }, line));
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
      if (pairs.models) continue;
      const scores = mine.map((one) => `${pairs.values.group[one[0]].replaceAll("_", " ")} ${number(one[2] === null ? null : one[2] * pairs.scale, 1, false)}`);
      node.append(made("p", { class: "facts" }, scores.join(" · ")));
      const tokens = mine.map((one) => pairs.tokens[one[3]]).find((one) => one && one.length);
      const answers = [...new Set(mine.map((one) => (pairs.values.answer || [])[one[4]]).filter(Boolean))];
      if (tokens) node.append(made("p", { class: "facts" }, "likeliest: " + tokens.map(([word, p]) => `${word} ${p}`).join(", ")));
      else if (answers.length) node.append(made("p", { class: "facts" }, "answer: " + answers.join(" / ")));
    }
    if (pairs.models) node.append(...modelNodes(pairs, entry));
    else if (difference !== null) node.append(made("p", {}, made("strong", {}, `gap ${number(difference, 1, true)}`)));
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
      this.selects = pairs.fields.map((name) => choice(["all", ...pairs.values[name]]));
      this.group = choice(["all", ...pairs.values.group]);
      this.order = choice(pairs.models ? ["as asked", "models furthest apart first"] : ["as asked", "highest gap first", "lowest gap first", "largest gap first"]);
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
    /** @param {string} text @param {number} step */
    button(text, step) {
      const button = made("button", { type: "button" }, text);
      button.addEventListener("click", () => { this.page += step; this.draw(); });
      return button;
    }
    set() {
      this.page = 0;
      this.draw();
      this.remember();
    }
    remember() {
      const chosen = new URLSearchParams();
      if (this.search.value) chosen.set("search", this.search.value);
      this.pairs.fields.forEach((name, place) => this.selects[place].value !== this.initial[place] && chosen.set(name, this.selects[place].value));
      if (this.group.value !== "all") chosen.set("group", this.group.value);
      if (this.order.value !== "as asked") chosen.set("order", this.order.value);
      remember(this.place.id, chosen);
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

  // --- slices ---------------------------------------------------------------------------------------

  /** The tools above the slices of an experiment: which rows, sets and groups of its tables are shown. */
  class Slices {
    /** @param {HTMLElement} place */
    constructor(place) {
      this.place = place;
      this.section = /** @type {HTMLElement} */ (place.closest("section"));
      this.tables = [...this.section.querySelectorAll("details.slice")].map((one) => new SliceTable(/** @type {HTMLDetailsElement} */ (one)));
      this.find = made("input", { type: "search" });
      this.by = choice(["every slice", ...this.tables.map((one) => one.title)]);
      this.set = choice(["all", ...this.tables.flatMap((one) => one.sets)]);
      this.group = choice(["all", ...this.tables.flatMap((one) => [...one.groups.keys()])]);
      this.told = made("p", { class: "soft", role: "status" });
      /** @type {[string, HTMLInputElement|HTMLSelectElement][]} */
      this.tools = [["find", this.find], ["by", this.by], ["set", this.set], ["group", this.group]];
      const tools = made("div", { class: "tools" }, label("find in slices", this.find), label("in", this.by));
      if (this.set.length > 2) tools.append(label("set", this.set));
      if (this.group.length > 2) tools.append(label("group", this.group));
      place.append(tools, this.told);
      for (const [, one] of this.tools) one.addEventListener("input", () => { this.draw(); remember(this.section.id, this.chosen()); });
    }
    chosen() {
      return new URLSearchParams(this.tools.filter(([, one]) => one.value && !isFirst(one)).map(([name, one]) => [name, one.value]));
    }
    /** What a link asks for. @param {URLSearchParams} wanted */
    show(wanted) {
      for (const [name, one] of this.tools) {
        one.value = wanted.get(name) ?? "";
        if (one instanceof HTMLSelectElement && one.selectedIndex < 0) one.selectedIndex = 0;
      }
      this.draw();
    }
    draw() {
      const words = this.find.value.toLowerCase().trim();
      const asked = this.tables.filter((one) => isFirst(this.by) || one.title === this.by.value);
      const [set, group] = [this.set, this.group].map((one) => (isFirst(one) ? "" : one.value));
      let [shown, all] = [0, 0];
      for (const one of this.tables) {
        const [mine, rows] = one.show(words, set, group);
        one.place.hidden = !asked.includes(one) || mine === 0;
        if (asked.includes(one)) [shown, all] = [shown + mine, all + rows];
      }
      this.told.textContent = this.chosen().size === 0 ? "" : shown ? `${shown} of ${all} rows of ${asked.length} tables; open them below.` : "None is like that.";
    }
  }

  /** One table of slices: its rows, the sets that its parts belong to, and its groups with the class of their mark. */
  class SliceTable {
    /** @param {HTMLDetailsElement} place */
    constructor(place) {
      this.place = place;
      this.title = place.querySelector("summary")?.textContent ?? "";
      this.tables = [...place.querySelectorAll("table")]; // of many columns there are several, with the same rows
      this.parts = this.tables.flatMap((table, place) => [...table.tBodies].map((body) => ({ body, first: place === 0, set: body.querySelector(".group th")?.textContent ?? "" })));
      this.sets = this.parts.map((one) => one.set).filter(Boolean);
      /** @type {Map<string, string>} */
      this.groups = new Map([...place.querySelectorAll(".keys span")].map((one) => {
        const mark = one.querySelector(".dot")?.getAttribute("class") ?? "";
        return [one.textContent?.trim() ?? "", mark.split(" ").find((name) => /^g\d$/.test(name)) ?? ""];
      }));
      [...this.groups].filter(([, mark]) => !mark).forEach(([name]) => this.groups.delete(name)); // keys of no group
    }
    /** Hide what is not asked for; gives how many rows are left, and of how many. @param {string} words @param {string} set @param {string} group @returns {[number, number]} */
    show(words, set, group) {
      let [shown, all] = [0, 0];
      for (const part of this.parts) {
        let mine = 0;
        for (const row of part.body.rows) {
          if (row.classList.contains("group")) continue;
          const text = [part.set, ...[...row.cells].filter((one) => one.dataset.number === undefined).map((one) => one.textContent)].join(" ").toLowerCase();
          const other = this.groups.size > 1 && [...row.cells].find((one) => one.dataset.head === "group");
          row.hidden = !text.includes(words) || (set !== "" && (this.sets.length ? part.set !== set : !text.includes(set.toLowerCase()))) || Boolean(other && group && other.textContent !== group);
          if (part.first) all++;
          if (!row.hidden) mine++;
        }
        part.body.hidden = mine === 0;
        if (part.first) shown += mine;
      }
      if (this.groups.size > 1) this.mark(group);
      return [shown, all];
    }
    /** Leave the dots and the column of one group; blank: of all. @param {string} group */
    mark(group) {
      const kept = this.groups.get(group);
      const away = (/** @type {string} */ name) => kept !== undefined && this.groups.has(name) && name !== group;
      for (const one of this.place.querySelectorAll("table .pic .dot, table .pic .ci")) one.classList.toggle("away", kept !== undefined && !one.classList.contains(kept));
      for (const one of this.tables.flatMap((table) => [...(table.tHead?.rows[0].cells ?? [])])) one.hidden = away(one.textContent ?? "");
      for (const one of this.place.querySelectorAll("table td[data-head]")) /** @type {HTMLElement} */ (one).hidden = away(/** @type {HTMLElement} */ (one).dataset.head ?? "");
    }
  }

  /** @param {HTMLInputElement|HTMLSelectElement} one */
  const isFirst = (one) => one instanceof HTMLSelectElement && one.selectedIndex === 0;

  /** @type {Map<Element, Slices>} */
  const slices = new Map();

  // --- the page -------------------------------------------------------------------------------------

  const parts = [...document.querySelectorAll("details[id]")].map((one) => /** @type {HTMLDetailsElement} */ (one));
  const before = new Map(parts.map((one) => [one, one.open]));

  /** Put what is looked at into the address: a part of the page, what it is set to, and what was opened and shut. @param {string} id @param {URLSearchParams} chosen */
  function remember(id, chosen) {
    const told = new URLSearchParams(chosen);
    const changed = parts.filter((one) => one.open !== before.get(one));
    for (const [name, open] of /** @type {[string, boolean][]} */ ([["open", true], ["shut", false]])) {
      const mine = changed.filter((one) => one.open === open && one.id !== id).map((one) => one.id);
      if (mine.length) told.set(name, mine.join(" "));
    }
    history.replaceState(null, "", `#${id}${told.size ? `?${told}` : ""}`);
  }

  /** A part was opened or shut by hand. @param {HTMLDetailsElement} part */
  function toggled(part) {
    if (part.classList.contains("pairs") && part.open) return explorer(part).then((one) => one.remember(), () => undefined);
    const tools = part.closest("section")?.querySelector(".slices");
    const mine = tools && slices.get(tools);
    remember(mine ? mine.section.id : part.id, mine ? mine.chosen() : new URLSearchParams());
  }

  /** Open what a link points to, as it was left. */
  function follow() {
    const [id, query] = location.hash.slice(1).split(/\?(.*)/s); // names of parts need no decoding
    const target = document.getElementById(id);
    if (!target) return;
    const wanted = new URLSearchParams(query || "");
    for (const [name, open] of /** @type {[string, boolean][]} */ ([["open", true], ["shut", false]])) {
      const named = wanted.get(name)?.split(" ") ?? [];
      parts.filter((one) => named.includes(one.id)).forEach((one) => { one.open = open; });
    }
    const tools = target.closest("section")?.querySelector(".slices");
    if (tools && !target.classList.contains("pairs")) slices.get(tools)?.show(wanted);
    for (let node = /** @type {HTMLElement|null} */ (target); node; node = node.parentElement) if (node instanceof HTMLDetailsElement) node.open = true;
    if (target.classList.contains("pairs")) {
      explorer(/** @type {HTMLDetailsElement} */ (target)).then((one) => one.show(wanted));
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
  document.querySelectorAll("table.sortable").forEach((one) => {
    sortable(/** @type {HTMLTableElement} */ (one));
    zoomable(/** @type {HTMLTableElement} */ (one));
  });
  document.querySelectorAll("div.slices").forEach((one) => slices.set(one, new Slices(/** @type {HTMLElement} */ (one))));
  parts.forEach((one) => one.querySelector("summary")?.addEventListener("click", () => setTimeout(() => toggled(one))));
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
