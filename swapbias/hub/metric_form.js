"use strict";
// The form of the page of a metric: reads pasted rows, shows what metric_page.js computes, copies code.

/** Split a line of pasted text into cells, at tabs or commas; quotes hold a cell together. @param {string} line */
function cellsOf(line) {
  const separator = line.includes("\t") ? "\t" : ",";
  const cells = [""];
  let quoted = false;
  for (const letter of line) {
    if (letter === '"') quoted = !quoted;
    else if (letter === separator && !quoted) cells.push("");
    else cells[cells.length - 1] += letter;
  }
  return cells.map((cell) => cell.trim());
}

/**
 * Read pasted rows.
 * @param {string} text its first line names the columns
 * @param {string[]} needed columns that must be there
 * @returns {Record<string, string[]>} the cells of each column
 */
function columnsOf(text, needed) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  const header = cellsOf(lines[0] ?? "");
  const missing = needed.filter((name) => !header.includes(name));
  if (missing.length) {
    throw new Error(`The first line does not name ${missing.join(" and ")}. Write ${needed.join(",")} there.`);
  }
  const rows = lines.slice(1).map(cellsOf);
  if (!rows.length) throw new Error("There are no rows below the names of the columns. Paste some.");
  const ragged = rows.findIndex((row) => row.length !== header.length);
  if (ragged >= 0) {
    throw new Error(`Row ${ragged + 1} has ${rows[ragged].length} cells, expected ${header.length}. Correct it.`);
  }
  return Object.fromEntries(header.map((name, index) => [name, rows.map((row) => row[index])]));
}

/** Write a number with five digits, as the card does. @param {number} value */
function shownNumber(value) {
  return Number.isNaN(value) ? "NaN" : String(Number(value.toPrecision(5)));
}

/** Compute the rows of the form and show the result, or what to correct. @param {HTMLFormElement} form */
function showResult(form) {
  const fields = /** @type {NodeListOf<HTMLInputElement>} */ (form.querySelectorAll("input"));
  const options = Object.fromEntries([...fields].map((field) => [field.name, field.value.trim()]));
  const rows = /** @type {HTMLTextAreaElement} */ (form.querySelector("textarea"));
  const output = /** @type {HTMLElement} */ (document.getElementById("result"));
  output.replaceChildren();
  try {
    const columns = columnsOf(rows.value, (form.dataset.columns ?? "").split(" "));
    const table = document.createElement("table");
    for (const [key, value] of Object.entries(METRICS[form.dataset.metric ?? ""](columns, options))) {
      const row = table.insertRow();
      row.insertCell().textContent = key;
      row.insertCell().textContent = shownNumber(value);
    }
    output.append(table);
  } catch (error) {
    const line = document.createElement("p");
    line.className = "error";
    line.textContent = error instanceof Error ? error.message : String(error);
    output.append(line);
  }
}

/** Copy the code beside a button. @param {HTMLButtonElement} button */
async function copyCode(button) {
  const code = button.parentElement?.querySelector("pre")?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(code);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select the text to copy it";
  }
}

if (typeof document !== "undefined") {
  const form = document.querySelector("form");
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    showResult(form);
  });
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", () => copyCode(/** @type {HTMLButtonElement} */ (button)));
  }
}
