// Horizontal axes: number format and the position of each point.
const AXES = {
  step: { write: many, of: (run, curve) => curve.step },
  tokens: { write: many, of: (run, curve) => curve.tokens.map((count) => count + run.before.tokens) },
  FLOPs: {
    write: flops,
    of: ({ flops_per_token: each, before }, curve) => {
      return each && before.flops !== null && curve.tokens.map((count) => count * each + before.flops);
    },
  },
  hours: { write: plain, of: (run, curve) => curve.seconds.map((count) => (count + run.before.seconds) / 3600) },
};
const CHARTS = [
  { metric: "generator_loss", title: "Generator loss", unit: "nats per token", write: plain },
  { metric: "mlm_loss", title: "Masked-LM loss", unit: "nats per token", write: plain },
  { metric: "discriminator_loss", title: "Discriminator loss", unit: "nats per token", write: plain },
  { metric: "discriminator_auc", title: "AUC", unit: "0.5 is chance", write: plain },
  { metric: "discriminator_precision", title: "Precision", unit: "of tokens flagged as replaced", write: share },
  { metric: "discriminator_recall", title: "Recall", unit: "of replaced tokens", write: share },
  { metric: "replaced_fraction", title: "Replacement rate", unit: "of all tokens", write: share },
  { metric: "generator_accuracy", title: "Generator accuracy", unit: "of its likeliest token", write: share },
  { metric: "mlm_accuracy", title: "Masked-LM accuracy", unit: "of its likeliest token", write: share },
  { metric: "tokens_per_second", title: "Throughput", unit: "tokens per second", write: many, fromZero: true },
  { metric: "peak_share", title: "Share of peak", unit: "of the device’s FLOP/s", write: share, fromZero: true },
  { metric: "slowest_lag", title: "Slowest process", unit: "longer than the median", write: share, fromZero: true },
  { metric: "learning_rate", title: "Learning rate", unit: "", write: plain, fromZero: true },
  { metric: "gradient_norm", title: "Gradient norm", unit: "before clipping", write: plain, fromZero: true },
];
const KINDS = { heldout: "held-out", training: "training" };
const HEIGHT = 196, LETTER = 6.1, LINE = 13; // pixels: chart height, letter width, line height
const SETTLED = 0.02; // share of the axis that does not affect the vertical range

function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => +((first + index) * step).toPrecision(12));
}

// Return one line for each run and kind of text that has the metric.
function linesOf(runs, metric, axis) {
  return runs.flatMap((run) => Object.keys(KINDS).flatMap((kind) => {
    const curve = run.curves[kind], places = curve[metric] && AXES[axis].of(run, curve);
    const points = (places || []).map((x, index) => [x, curve[metric][index]]);
    const known = points.filter(([x, y]) => x != null && y != null);
    return known.length ? [{ run, kind, points: known, last: known.at(-1) }] : [];
  }));
}

// Return the outline of the expected range of each run that has one.
function bandsOf(runs, metric, axis) {
  return runs.filter((run) => run.expected?.metric === metric).flatMap((run) => {
    const { low, high } = run.expected, places = AXES[axis].of(run, run.expected);
    const side = (values) => values.map((value, index) => [places[index], value]);
    return places ? [{ run, points: [...side(low), ...side(high).reverse()] }] : [];
  });
}

function rangeOf(lines, fromZero) {
  const all = lines.flatMap((line) => line.points);
  const right = Math.max(...all.map(([x]) => x)) || 1;
  const settled = all.filter(([x]) => x > SETTLED * right);
  const values = (settled.length > 8 ? settled : all).map(([, y]) => y);
  const low = Math.min(...values), high = Math.max(...values), room = 0.06 * (high - low || Math.abs(high) || 1);
  return { right, low: fromZero ? 0 : low >= 0 ? Math.max(0, low - room) : low - room, high: high + room };
}

// Move overlapping labels apart, and keep them inside the chart.
function spread(labels, top, bottom) {
  const touch = (one, other) => one.x < other.x + other.width && other.x < one.x + one.width;
  labels.sort((one, other) => one.y - other.y);
  labels.forEach((label, index) => {
    const above = labels.slice(0, index).filter((other) => touch(label, other));
    label.y = Math.max(top, label.y, ...above.map((other) => other.y + LINE));
  });
  for (let index = labels.length - 1; index >= 0; index--) {
    const below = labels.slice(index + 1).filter((other) => touch(labels[index], other));
    labels[index].y = Math.min(bottom, labels[index].y, ...below.map((other) => other.y - LINE));
  }
  return labels;
}

// Return a chart as a figure, or null if no run has the metric.
function drawChart({ metric, title, unit, write, fromZero }, runs, axis, width) {
  const lines = linesOf(runs, metric, axis);
  if (!lines.length) return null;
  const single = runs.length === 1; // then labels name the kind of text, else the run
  const measured = new Set(lines.filter((line) => line.kind === "heldout").map((line) => line.run));
  const labeled = lines.filter((line) => single || line.kind === "heldout" || !measured.has(line.run));
  const name = (run) => shortened(run.name, 14);
  const text = ({ run, kind, last }) => {
    if (!single) return name(run);
    return measured.has(run) ? `${KINDS[kind]} ${write(last[1])}` : write(last[1]);
  };
  const letters = single ? "held-out 99.9 %".length : Math.max(6, ...runs.map((run) => name(run).length));
  const box = { left: 44, right: width - 16 - LETTER * letters, top: 8, bottom: HEIGHT - 24 };
  const bands = bandsOf(runs, metric, axis);
  const { right, low, high } = rangeOf([...lines, ...bands], fromZero);
  const x = (value) => box.left + (box.right - box.left) * (value / right);
  const y = (value) => box.bottom - (box.bottom - box.top) * ((value - low) / (high - low));

  const drawing = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${title} by ${axis}` });
  for (const tick of ticks(low, high, 5)) {
    drawing.append(make("line", { class: "rule", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }));
    drawing.append(make("text", { x: box.left - 7, y: y(tick) + 4, "text-anchor": "end" }, trimmed(write(tick))));
  }
  for (const tick of ticks(0, right, 4)) {
    const text = trimmed(AXES[axis].write(tick));
    drawing.append(make("text", { x: x(tick), y: HEIGHT - 7, "text-anchor": "middle" }, text));
  }
  drawing.append(make("text", { x: box.right + 14, y: HEIGHT - 7 }, axis));
  drawing.append(drawLines(lines, bands, { x, y, box, clip: `inside-${metric}`, measured }));
  const labels = labeled.map((line) => {
    return { line, x: x(line.last[0]) + 8, y: y(line.last[1]), width: LETTER * text(line).length };
  });
  for (const label of spread(labels, box.top, box.bottom)) {
    const { run, kind } = label.line, style = `fill: ${run.color}`;
    const pale = single && kind === "training" && measured.has(run) ? " pale" : "";
    drawing.append(make("text", { class: `label${pale}`, x: label.x, y: label.y + 4, style }, text(label.line)));
  }
  follow(drawing, { lines, x, box, right, axis, write });
  return make("figure", { "data-metric": metric }, make("h3", {}, title, " ", make("small", {}, unit)), drawing);
}

function drawLines(lines, bands, { x, y, box, clip, measured }) {
  const size = { x: box.left - 4, y: box.top - 4, width: box.right - box.left + 8, height: box.bottom - box.top + 8 };
  const inside = make("g", { "clip-path": `url(#${clip})` }, make("clipPath", { id: clip }, make("rect", size)));
  const path = (points) => `M${points.map(([across, up]) => `${x(across).toFixed(1)} ${y(up).toFixed(1)}`).join("L")}`;
  inside.append(...bands.map(({ run, points }) => make("path", { class: "band", fill: run.color, d: path(points) })));
  for (const { run, kind, points } of lines) {
    const strength = measured.has(run) ? kind : `${kind} only`;
    const look = { class: strength, stroke: run.color, "stroke-dasharray": run.dash };
    inside.append(make("path", { ...look, d: path(points) }));
    if (kind === "heldout" && points.length < 40) {
      const dot = ([across, up]) => make("circle", { cx: x(across), cy: y(up), r: 2.1, fill: run.color });
      inside.append(...points.map(dot));
    }
  }
  return inside;
}

// Show the values of all lines at the pointer.
function follow(drawing, { lines, x, box, right, axis, write }) {
  const cursor = make("line", { class: "cursor", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const tip = find("#tip");
  const nearer = (wanted) => (one, other) => (Math.abs(other[0] - wanted) < Math.abs(one[0] - wanted) ? other : one);
  drawing.append(cursor);
  drawing.addEventListener("pointermove", (event) => {
    const frame = drawing.getBoundingClientRect();
    const place = ((event.clientX - frame.left) / frame.width) * drawing.viewBox.baseVal.width;
    const wanted = Math.min(1, Math.max(0, (place - box.left) / (box.right - box.left))) * right;
    const near = lines.map((line) => line.points.reduce(nearer(wanted)));
    const [closest] = near.reduce(nearer(wanted));
    for (const side of ["x1", "x2"]) cursor.setAttribute(side, x(closest));
    cursor.setAttribute("visibility", "visible");
    const values = lines.map(({ run, kind }, index) => {
      const name = make("b", { style: `color: ${run.color}` }, run.name);
      return make("div", {}, name, ` ${KINDS[kind]} ${write(near[index][1])}`);
    });
    tip.replaceChildren(make("div", {}, `${axis} ${AXES[axis].write(closest)}`), ...values);
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });
  drawing.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    tip.hidden = true;
  });
}

// Draw the scores of a task: a row per run, a dot per seed, a bar for the interval, a mark for the median.
const score = (metric, value) => (metric.endsWith("error") ? value.toFixed(4) : (100 * value).toFixed(1));

function drawScores(task, runs, width) {
  const { metric } = runs[0].results, name = (run) => shortened(run.name, 18), row = 26;
  const seeds = (run) => run.results.seeds.map((seed) => seed.metrics[metric]);
  const values = runs.flatMap((run) => [...seeds(run), ...(run.results.interval[metric] || [])]);
  const room = 0.12 * (Math.max(...values) - Math.min(...values)) || 0.01;
  const low = Math.min(...values) - room, high = Math.max(...values) + room, bottom = row * runs.length + 4;
  const box = { left: 10 + LETTER * Math.max(...runs.map((run) => name(run).length)), right: width - 96 };
  const x = (value) => box.left + ((value - low) / (high - low)) * (box.right - box.left);
  const look = { viewBox: `0 0 ${width} ${bottom + 20}`, role: "img", "aria-label": `${task}: ${metric}` };
  const drawing = make("svg", look);
  for (const tick of ticks(low, high, 4)) {
    drawing.append(make("line", { class: "rule", x1: x(tick), x2: x(tick), y1: 2, y2: bottom }));
    drawing.append(make("text", { x: x(tick), y: bottom + 14, "text-anchor": "middle" }, score(metric, tick)));
  }
  runs.forEach((run, number) => {
    const y = row * number + 15, middle = run.results.median[metric], interval = run.results.interval[metric];
    const stroke = run.color, bounds = interval?.map((bound) => score(metric, bound));
    if (interval) {
      const [x1, x2] = interval.map(x);
      drawing.append(make("line", { class: "interval", x1, x2, y1: y, y2: y, stroke }));
    }
    const dot = (value) => make("circle", { cx: x(value), cy: y, r: 3, fill: stroke, opacity: 0.6 });
    drawing.append(...seeds(run).map(dot));
    drawing.append(make("line", { x1: x(middle), x2: x(middle), y1: y - 7, y2: y + 7, stroke, "stroke-width": 2 }));
    drawing.append(make("text", { class: "label", x: 0, y: y + 4, style: `fill: ${stroke}` }, name(run)));
    const summary = `${score(metric, middle)}${bounds ? ` [${bounds.join(", ")}]` : ""}`;
    drawing.append(make("text", { x: width, y: y + 4, "text-anchor": "end" }, summary));
  });
  return make("figure", { "data-task": task }, make("h3", {}, task, " ", make("small", {}, metric)), drawing);
}
