"use strict";
// The page of a metric: computes pasted rows in the browser, as the module beside it does without clusters.

/** @typedef {Record<string, string[]>} Columns cells by the name of their column */
/** @typedef {Record<string, string>} Options texts of the inputs by name */
/** @typedef {Record<string, number>} Result numbers by key; NaN where there is none */

const FLAT = 1e-12; // as in the package: a spread below this share of the values is rounding
const UNUSED = 1e-12; // weights below this are none
const NORMAL = 1.959963984540054; // standard errors that a 95 % interval of a normal reaches

// --- distributions ----------------------------------------------------------------------------------------

/** Return the log of the gamma function (Lanczos). @param {number} x above 0 @returns {number} */
function logGamma(x) {
  const parts = [
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
  ];
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const base = x - 1 + 7.5;
  const sum = parts.reduce((total, part, index) => total + part / (x + index), 0.99999999999980993);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(base) - base + Math.log(sum);
}

/**
 * Return the regularised incomplete beta function.
 * @param {number} x
 * @param {number} a
 * @param {number} b
 * @returns {number}
 */
function incompleteBeta(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(
    logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x),
  );
  let c = 1;
  let d = 1 / (1 - ((a + b) * x) / (a + 1));
  let fraction = d;
  for (let m = 1; m < 2000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    fraction *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    const step = d * c;
    fraction *= step;
    if (Math.abs(step - 1) < 1e-15) break;
  }
  return (front * fraction) / a;
}

/** Return the two-sided p-value of a t statistic. @param {number} t @param {number} df */
function tP(t, df) {
  return incompleteBeta(df / (df + t * t), df / 2, 0.5);
}

/** Return the t statistic that a 95 % interval reaches. @param {number} df degrees of freedom */
function tReach(df) {
  let low = 0;
  let high = 1;
  while (tP(high, df) > 0.05) high *= 2;
  for (let step = 0; step < 200; step += 1) {
    const middle = (low + high) / 2;
    if (tP(middle, df) > 0.05) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Return the two-sided exact p-value of k of n at a chance of one half. @param {number} k @param {number} n */
function signTest(k, n) {
  if (n === 0) return NaN;
  const fewer = Math.min(k, n - k);
  let sum = 0;
  for (let index = 0; index <= fewer; index += 1) {
    sum += Math.exp(logGamma(n + 1) - logGamma(index + 1) - logGamma(n - index + 1) - n * Math.log(2));
  }
  return 2 * fewer === n ? 1 : Math.min(1, 2 * sum);
}

// --- means and shares -------------------------------------------------------------------------------------

/** Return the mean; NaN of nothing. @param {number[]} values */
function mean(values) {
  const first = values.reduce((sum, value) => sum + value, 0) / values.length;
  return first + values.reduce((sum, value) => sum + (value - first), 0) / values.length;
}

/**
 * Return the standard deviation; 0 where it is rounding, NaN below two values.
 * @param {number[]} values
 * @param {number[]} scale numbers as large as those that the values were made of
 */
function spread(values, scale) {
  if (values.length < 2) return NaN;
  const centre = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - centre) ** 2, 0);
  const size = Math.sqrt(squares / (values.length - 1));
  return size <= FLAT * Math.max(...scale.map(Math.abs)) ? 0 : size;
}

/** Return the standard deviation within groups; NaN where a group has one value. @param {number[][]} samples */
function pooledSpread(samples) {
  if (samples.some((sample) => sample.length < 2)) return NaN;
  const squares = samples.reduce((sum, one) => sum + (one.length - 1) * spread(one, one) ** 2, 0);
  return Math.sqrt(squares / samples.reduce((sum, one) => sum + one.length - 1, 0));
}

/** Return a value over a spread; NaN without one. @param {number} value @param {number} size */
function divide(value, size) {
  return size > 0 ? value / size : NaN;
}

/**
 * Return a weighted sum of means of independent samples with its standard error (Welch; of one sample t).
 * @param {number[][]} samples
 * @param {number[]} weights
 * @param {number[]} scale
 */
function contrast(samples, weights, scale) {
  if (samples.some((sample) => sample.length === 0)) return { value: NaN, error: NaN, df: NaN };
  let value = samples.reduce((sum, sample, index) => sum + weights[index] * mean(sample), 0);
  if (Math.abs(value) <= FLAT * Math.max(...scale.map(Math.abs))) value = 0;
  const spreads = samples.map((sample) => spread(sample, scale));
  if (spreads.some(Number.isNaN) || spreads.every((size) => size === 0)) {
    return { value, error: NaN, df: NaN };
  }
  const parts = samples.map((sample, index) => (weights[index] * spreads[index]) ** 2 / sample.length);
  const sum = parts.reduce((total, part) => total + part, 0);
  const below = parts.reduce((total, part, index) => total + part ** 2 / (samples[index].length - 1), 0);
  return { value, error: Math.sqrt(sum), df: sum ** 2 / below };
}

/** Return the ends of the t interval. @param {{value: number, error: number, df: number}} estimate */
function ends({ value, error, df }) {
  if (!(error > 0)) return [NaN, NaN];
  const reach = error * tReach(df);
  return [value - reach, value + reach];
}

/** Return the two-sided p-value of "it is 0". @param {{value: number, error: number, df: number}} estimate */
function pOf({ value, error, df }) {
  return error > 0 ? tP(value / error, df) : NaN;
}

/** Return a share with Wilson's interval. @param {number} count @param {number} n */
function wilson(count, n) {
  if (n === 0) return [NaN, NaN, NaN];
  const share = count / n;
  const square = NORMAL ** 2 / n;
  const half = NORMAL * Math.sqrt((share * (1 - share)) / n + square / (4 * n));
  const low = (share + square / 2 - half) / (1 + square);
  const high = (share + square / 2 + half) / (1 + square);
  return [share, count === 0 ? 0 : low, count === n ? 1 : high];
}

// --- rows -------------------------------------------------------------------------------------------------

/** Read cells as numbers; a blank cell and NaN are missing. @param {string[]} cells @param {string} column */
function numbers(cells, column) {
  return cells.map((cell, index) => {
    if (cell === "" || /^nan$/i.test(cell)) return NaN;
    const value = Number(cell);
    if (!Number.isFinite(value)) {
      throw new Error(`Row ${index + 1}: ${column} is "${cell}", expected a number. Correct it.`);
    }
    return value;
  });
}

/** Return the groups in alphabetical order, none blank. @param {string[]} groups */
function groupNames(groups) {
  const blank = groups.indexOf("");
  if (blank >= 0) throw new Error(`Row ${blank + 1} has no group. Fill in the column groups.`);
  return [...new Set(groups)].sort();
}

/** Return the other group and the reference. @param {string[]} groups @param {string} reference */
function twoGroups(groups, reference) {
  const names = groupNames(groups);
  if (names.length !== 2) {
    throw new Error(`The rows have ${names.length} groups, expected two. Leave the other rows out.`);
  }
  if (!names.includes(reference)) {
    throw new Error(`No row is of the reference group "${reference}". Write ${names.join(" or ")}.`);
  }
  return [names[0] === reference ? names[1] : names[0], reference];
}

/**
 * Return the predictions of each pair in the order of the names, and how many pairs lack one.
 * @param {number[]} values
 * @param {string[]} groups
 * @param {string[]} pairs
 * @param {string[]} names
 */
function completePairs(values, groups, pairs, names) {
  /** @type {Map<string, Map<string, number>>} */
  const table = new Map();
  pairs.forEach((pair, index) => {
    if (pair === "") throw new Error(`Row ${index + 1} has no pair. Fill in the column pair_ids.`);
    const row = table.get(pair) ?? new Map();
    if (row.has(groups[index])) {
      throw new Error(`Pair "${pair}" has two rows of "${groups[index]}", expected one. Correct pair_ids.`);
    }
    row.set(groups[index], values[index]);
    table.set(pair, row);
  });
  const rows = [...table].map(([pair, row]) =>
    names.map((name) => {
      const value = row.get(name);
      if (value === undefined) {
        throw new Error(`Pair "${pair}" has no row of "${name}", expected one. Add it.`);
      }
      return value;
    }),
  );
  const complete = rows.filter((row) => !row.some(Number.isNaN));
  return { complete, unscored: rows.length - complete.length };
}

/** Read a threshold; nothing where the input is blank. @param {string} text */
function thresholdOf(text) {
  if (text === "") return undefined;
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`The threshold is "${text}", expected a number, such as 0.5.`);
  return value;
}

// --- metrics ----------------------------------------------------------------------------------------------

/** @param {Columns} columns @param {Options} options @returns {Result} */
function pairedGap(columns, options) {
  const names = twoGroups(columns.groups, options.reference_group);
  const values = numbers(columns.predictions, "predictions");
  const { complete, unscored } = completePairs(values, columns.groups, columns.pair_ids, names);
  const differences = complete.map(([other, reference]) => other - reference);
  const estimate = contrast([differences], [1], complete.flat());
  const [low, high] = ends(estimate);
  const sides = [0, 1].map((side) => complete.map((row) => row[side]));
  return {
    value: estimate.value,
    ci_low: low,
    ci_high: high,
    effect_size: divide(estimate.value, pooledSpread(sides)),
    effect_size_z: divide(estimate.value, spread(differences, complete.flat())),
    p_value: pOf(estimate),
    n: complete.length,
    n_unscored: unscored,
  };
}

/** @param {Columns} columns @param {Options} options @returns {Result} */
function groupGap(columns, options) {
  const names = twoGroups(columns.groups, options.reference_group);
  const values = numbers(columns.predictions, "predictions");
  const samples = names.map((name) =>
    values.filter((value, index) => columns.groups[index] === name && !Number.isNaN(value)),
  );
  const estimate = contrast(samples, [1, -1], samples.flat());
  const [low, high] = ends(estimate);
  return {
    value: estimate.value,
    ci_low: low,
    ci_high: high,
    effect_size: divide(estimate.value, pooledSpread(samples)),
    p_value: pOf(estimate),
    n: samples.flat().length,
    n_unscored: values.length - samples.flat().length,
  };
}

/** @param {Columns} columns @param {Options} options @returns {Result} */
function flipRate(columns, options) {
  const names = twoGroups(columns.groups, options.reference_group);
  const threshold = thresholdOf(options.threshold);
  let values = numbers(columns.predictions, "predictions");
  if (threshold !== undefined) {
    values = values.map((value) => (Number.isNaN(value) ? value : Number(value > threshold)));
  }
  const odd = values.findIndex((value) => ![0, 1].includes(value) && !Number.isNaN(value));
  if (odd >= 0) {
    throw new Error(`Row ${odd + 1}: predictions is ${values[odd]}, expected 0 or 1. Give a threshold.`);
  }
  const { complete, unscored } = completePairs(values, columns.groups, columns.pair_ids, names);
  const more = complete.filter(([other, reference]) => other > reference).length;
  const fewer = complete.filter(([other, reference]) => other < reference).length;
  const [share, low, high] = wilson(more + fewer, complete.length);
  return {
    value: share,
    ci_low: low,
    ci_high: high,
    p_value: signTest(more, more + fewer),
    more,
    fewer,
    direction: complete.length ? Math.sign(more - fewer) : NaN,
    n: complete.length,
    n_unscored: unscored,
  };
}

/** @param {Columns} columns @param {Options} options @returns {Result} */
function shareAbove(columns, options) {
  const threshold = thresholdOf(options.threshold) ?? 0.5;
  const values = numbers(columns.predictions, "predictions");
  groupNames(columns.groups);
  /** @type {Result} */
  const result = {};
  for (const name of new Set(columns.groups)) {
    const all = values.filter((_, index) => columns.groups[index] === name);
    const used = all.filter((value) => !Number.isNaN(value));
    // Nothing lies above the range of a share: a threshold of 1 or more counts what reaches it.
    const isAbove = (/** @type {number} */ value) =>
      threshold >= 1 ? value >= threshold - 1e-9 : value > threshold;
    const count = used.filter(isAbove).length;
    const [share, low, high] = wilson(count, used.length);
    result[`share_${name}`] = share;
    result[`count_${name}`] = used.length ? count : NaN;
    result[`ci_low_${name}`] = low;
    result[`ci_high_${name}`] = high;
    result[`n_${name}`] = used.length;
    result[`n_unscored_${name}`] = all.length - used.length;
  }
  return result;
}

/**
 * Return the samples of groups and how their means are weighed: of pairs one sample of weighted sums.
 * @param {number[][]} samples
 * @param {boolean} paired
 * @param {number[]} weights
 */
function weighed(samples, paired, weights) {
  if (!paired) {
    const used = weights.flatMap((weight, index) => (Math.abs(weight) > UNUSED ? [index] : []));
    return contrast(used.map((index) => samples[index]), used.map((index) => weights[index]), samples.flat());
  }
  const sums = samples[0].map((_, pair) =>
    weights.reduce((sum, weight, index) => sum + weight * samples[index][pair], 0),
  );
  return contrast([sums], [1], samples.flat());
}

/** @param {Columns} columns @param {Options} options @returns {Result} */
function selectionRate(columns, options) {
  const names = groupNames(columns.groups);
  const values = numbers(columns.predictions, "predictions");
  const odd = values.findIndex((value) => value < 0 || value > 1);
  if (odd >= 0) throw new Error(`Row ${odd + 1}: predictions is ${values[odd]}, expected 0 to 1. Correct it.`);
  if (names.length < 2) throw new Error("The rows have one group, expected two or more. Add rows of others.");
  const reference = options.reference_group;
  if (reference && !names.includes(reference)) {
    throw new Error(`No row is of the reference group "${reference}". Write ${names.join(" or ")}.`);
  }
  const paired = Boolean(columns.pair_ids);
  let samples = names.map((name) =>
    values.filter((value, index) => columns.groups[index] === name && !Number.isNaN(value)),
  );
  let unscored = values.filter(Number.isNaN).length;
  if (paired) {
    const pairs = completePairs(values, columns.groups, columns.pair_ids, names);
    samples = names.map((_, index) => pairs.complete.map((row) => row[index]));
    unscored = pairs.unscored;
  }
  const bases = names.map((name) => (reference ? Number(name === reference) : 1 / names.length));
  const base = names.reduce((sum, _, index) => sum + (bases[index] ? bases[index] * mean(samples[index]) : 0), 0);
  /** @type {Result} */
  const result = {};
  names.forEach((name, index) => {
    const own = names.map((other) => Number(other === name));
    const rate = weighed(samples, paired, own);
    const [low, high] = ends(rate).map((end) => Math.min(1, Math.max(0, end)));
    const ratio = base > 0 ? rate.value / base : NaN;
    let [ratioLow, ratioHigh, pValue] = [NaN, NaN, NaN];
    if (name !== reference && rate.value > 0 && base > 0) {
      const log = weighed(samples, paired, own.map((weight, at) => weight / rate.value - bases[at] / base));
      [ratioLow, ratioHigh] = ends(log).map((end) => ratio * Math.exp(Math.min(end, 700)));
      pValue = pOf({ ...log, value: Math.log(ratio) });
    }
    result[`rate_${name}`] = rate.value;
    result[`ratio_${name}`] = ratio;
    result[`rate_low_${name}`] = low;
    result[`rate_high_${name}`] = high;
    result[`ratio_low_${name}`] = ratioLow;
    result[`ratio_high_${name}`] = ratioHigh;
    result[`p_value_${name}`] = pValue;
    result[`n_${name}`] = samples[index].length;
    result[`n_unscored_${name}`] = unscored;
  });
  return result;
}

/** Return the rank of each value, ties in the middle. @param {number[]} values */
function ranks(values) {
  return values.map((value) => {
    const below = values.filter((other) => other < value).length;
    const equal = values.filter((other) => other === value).length;
    return below + (equal + 1) / 2;
  });
}

/**
 * Return a correlation with its interval and p-value.
 * @param {number[]} x
 * @param {number[]} y
 * @param {boolean} byRanks
 */
function correlation(x, y, byRanks) {
  const n = x.length;
  if (n < 3 || spread(x, x) === 0 || spread(y, y) === 0) return [NaN, NaN, NaN, NaN];
  const [first, second] = byRanks ? [ranks(x), ranks(y)] : [x, y];
  const [centre, other] = [mean(first), mean(second)];
  const products = first.reduce((sum, value, index) => sum + (value - centre) * (second[index] - other), 0);
  const size = (n - 1) * spread(first, first) * spread(second, second);
  const r = Math.min(1, Math.max(-1, products / size));
  const p = Math.abs(r) === 1 ? 0 : tP(r * Math.sqrt((n - 2) / (1 - r * r)), n - 2);
  if (n < 4 || Math.abs(r) === 1) return [r, NaN, NaN, p];
  const half = NORMAL * Math.sqrt((byRanks ? 1 + r ** 2 / 2 : 1) / (n - 3));
  return [r, Math.tanh(Math.atanh(r) - half), Math.tanh(Math.atanh(r) + half), p];
}

/** @param {Columns} columns @returns {Result} */
function biasCorrelation(columns) {
  const x = numbers(columns.predictions, "predictions");
  const y = numbers(columns.references, "references");
  const used = x.flatMap((value, index) => (Number.isNaN(value) || Number.isNaN(y[index]) ? [] : [index]));
  /** @type {Result} */
  const result = {};
  for (const method of ["pearson", "spearman"]) {
    const [r, low, high, p] = correlation(
      used.map((index) => x[index]), used.map((index) => y[index]), method === "spearman",
    );
    result[method] = r;
    result[`${method}_ci_low`] = low;
    result[`${method}_ci_high`] = high;
    result[`${method}_p_value`] = p;
  }
  return { ...result, n: used.length, n_unscored: x.length - used.length };
}

/** @type {Record<string, (columns: Columns, options: Options) => Result>} */
const METRICS = {
  bias_correlation: biasCorrelation,
  flip_rate: flipRate,
  group_gap: groupGap,
  paired_gap: pairedGap,
  selection_rate: selectionRate,
  share_above: shareAbove,
};
