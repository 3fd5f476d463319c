// The data of the report and the reader's choices.
const data = JSON.parse(find("#data").textContent);
const DASHES = [undefined, "5 3", "1.5 3"]; // for the first eight runs, the next eight, and so on
const runs = data.runs.map((run, number) => {
  return { ...run, color: `var(--c${number % 8})`, dash: DASHES[Math.floor(number / 8) % DASHES.length] };
});
const chosen = { axis: "step", hidden: new Set(), samples: null };
const visible = () => runs.filter((run) => !chosen.hidden.has(run));
const sampled = () => {
  const shown = visible().filter((run) => run.samples.length);
  return shown.includes(chosen.samples) ? chosen.samples : shown[0];
};
const named = (run) => ({ class: "name", style: `--color: ${run.color}`, text: run.name });
const chartWidth = (grid) => Math.max(280, Math.min(420, find(grid).clientWidth));

// Buttons are made once, so that they keep the keyboard focus; drawing updates their pressed state.
const choices = [];

function choice(act, pressed, ...content) {
  const button = make("button", { type: "button", onclick: () => { act(); draw(); } }, ...content);
  choices.push([button, pressed]);
  return button;
}
function makeControls() {
  const toggle = (run) => chosen.hidden.delete(run) || chosen.hidden.add(run);
  const dot = (run) => make("span", { class: "dot", style: `--color: ${run.color}` });
  const shown = runs.filter((run) => run.samples.length);
  if (runs.length > 1) {
    fill("#runs", runs.map((run) => choice(() => toggle(run), () => !chosen.hidden.has(run), dot(run), run.name)));
  }
  if (runs.some((run) => run.state)) {
    const axis = (name) => choice(() => { chosen.axis = name; }, () => name === chosen.axis, name);
    fill("#axes", Object.keys(AXES).map(axis));
  }
  if (shown.length > 1) {
    const sample = (run) => choice(() => { chosen.samples = run; }, () => run === sampled(), run.name);
    fill("#sample-runs", shown.map(sample));
  }
}
function drawControls() {
  for (const [button, pressed] of choices) button.setAttribute("aria-pressed", pressed());
}

function drawVerdicts() {
  const name = (run) => (runs.length > 1 ? make("b", { style: `color: ${run.color}` }, `${run.name}: `) : null);
  fill("#verdicts", visible().filter((run) => run.verdict).map((run) => make("p", {}, name(run), run.verdict, ".")));
}

function drawGlance() {
  const trained = visible().filter((run) => run.state);
  if (!show("#glance", trained.length)) return;
  const known = ({ metric }) => trained.some(({ latest }) => metric in latest.heldout || metric in latest.training);
  const metrics = CHARTS.filter((chart) => /_loss|discriminator|replaced/.test(chart.metric) && known(chart));
  const value = ({ latest }, { metric, write }) => {
    if (latest.heldout[metric] != null) return write(latest.heldout[metric]);
    return latest.training[metric] == null ? undefined : { class: "unsure", text: write(latest.training[metric]) };
  };
  const state = ({ finished, progress, seconds_left: seconds }) => {
    return finished ? "finished" : `${Math.floor(100 * progress)} %${seconds ? `, ${duration(seconds)} left` : ""}`;
  };
  const row = (run) => {
    return [named(run), left(state(run.state)), exact(run.state.step), ...metrics.map((chart) => value(run, chart))];
  };
  const headings = ["Run", left("State"), "Step", ...metrics.map((chart) => chart.title)];
  fill("#glance .wide", table(headings, trained.map(row)));
}

function drawWarnings() {
  const found = new Map(); // by explanation, or by text if there is none
  for (const run of visible()) {
    for (const warning of run.warnings) {
      const key = warning.meaning || warning.text;
      found.set(key, [...(found.get(key) || []), { run, ...warning }]);
    }
  }
  const place = ({ run, first_step: first, last_step: last, times }) => {
    return `${run.name} at step ${exact(first)}${times > 1 ? `, ${times} times up to step ${exact(last)}` : ""}`;
  };
  const drawn = [...found.values()].map((group) => {
    const [{ meaning, advice }] = group, texts = [...new Set(group.map((warning) => warning.text))];
    return make("div", { class: "warning" },
      ...texts.map((text) => make("p", { class: "what" }, text)),
      make("p", { class: "where" }, group.map(place).join(" · ")),
      meaning ? make("p", {}, meaning) : null,
      advice ? make("p", {}, make("b", {}, "What to do. "), advice) : null);
  });
  fill("#warnings > div", drawn.length ? drawn : make("p", { class: "note" }, "No warnings."));
}

function drawCurves() {
  const trained = visible().filter((run) => run.state);
  if (!show("#curves", trained.length)) return;
  const width = chartWidth("#curves .grid");
  const zeros = CHARTS.filter(({ metric, write }) => { // on held-out text, or else in training
    const lines = linesOf(trained, metric, chosen.axis), heldout = lines.filter((line) => line.kind === "heldout");
    const values = (heldout.length ? heldout : lines).flatMap(({ points }) => points.map(([, value]) => value));
    return values.length && values.every((value) => write(value) === write(0));
  });
  const drawn = CHARTS.filter((chart) => !zeros.includes(chart));
  fill("#curves .grid", drawn.map((chart) => drawChart(chart, trained, chosen.axis, width)).filter(Boolean));
  const titles = zeros.map(({ title }) => title).join(", ");
  if (show("#zeros", zeros.length)) fill("#zeros", `Always 0 and not drawn: ${titles}.`);
}

function drawToken(sample, index) {
  const original = sample.original[index], shown = sample.shown[index];
  const guess = sample.predicted?.[index], likely = sample.replaced?.[index];
  const changed = shown !== original;
  const guessed = guess != null && likely == null && (changed || guess !== original);
  const kind = guessed ? (guess === original ? "right" : "wrong") : changed ? "new" : "";
  const words = shown.trim() + (guessed && guess !== shown ? ` → ${guess.trim()}` : "");
  const body = changed || guessed ? make("ruby", {}, words, make("rt", {}, original.trim())) : words;
  const prediction = guess == null ? "" : `, predicted original: ${guess.trim()}`;
  const title = likely == null ? undefined : `replaced: ${share(likely)}${prediction}`;
  const token = make("span", { class: `token ${kind}`, style: `--p: ${likely ?? 0}`, title }, body);
  return [shown.startsWith(" ") ? " " : "", token];
}
function drawSamples() {
  const run = sampled();
  if (!show("#samples", run)) return;
  const [first] = run.samples, judged = first.samples[0]?.replaced;
  find("#of-discriminator").hidden = !judged;
  find("#of-masked-lm").hidden = Boolean(judged);
  const moment = (record, index) => {
    const sample = record.samples[index], tokens = sample.original.flatMap((_, place) => drawToken(sample, place));
    const when = make("div", {}, `step ${many(record.step)}`);
    return make("div", { class: "moment" }, when, make("div", { class: "tokens" }, tokens));
  };
  const sentence = (_, index) => {
    const moments = run.samples.filter((record) => record.samples[index]);
    return make("div", { class: "sentence" }, moments.map((record) => moment(record, index)));
  };
  fill("#sentences", first.samples.map(sentence));
}

function drawFinetuning() {
  const tuned = visible().filter((run) => run.results);
  if (!show("#finetuning", tuned.length)) return;
  const width = chartWidth("#finetuning .grid");
  const alike = ({ results: { task, metric }, config }) => {
    return JSON.stringify([task, metric, task === "table" && config.data]);
  };
  const groups = [...new Set(tuned.map(alike))].map((kind) => tuned.filter((run) => alike(run) === kind));
  fill("#finetuning .grid", groups.map((group) => drawScores(group[0].results.task, group, width)));
  const scores = ({ median, std, seeds }) => Object.entries(median).map(([metric, value]) => {
    return `${metric} ${score(metric, value)}${seeds.length > 1 ? ` ± ${score(metric, std[metric])}` : ""}`;
  });
  const row = (run) => {
    const { task, model, start, protocol, seeds, examples } = run.results;
    const texts = [task, scores(run.results).join(" · "), model, start, protocol];
    return [named(run), ...texts.map(left), exact(seeds.length), exact(examples.train)];
  };
  const headings = ["Task", "Median ± std", "Model", "Start", "Protocol"];
  fill("#finetuning .wide", table(["Run", ...headings.map(left), "Seeds", "Examples"], tuned.map(row)));
}

function drawCost() {
  const seconds = (run) => run.cost?.seconds ?? run.results?.seeds.reduce((sum, seed) => sum + seed.seconds, 0);
  const operations = (run) => {
    if (run.flops_problem) return { class: "unsure", text: "not counted" };
    return maybe(flops, run.cost?.flops);
  };
  const machines = (place) => (place.machines > 1 ? ` on ${place.machines} machines` : "");
  const device = (place) => place.device + (place.processes > 1 ? ` × ${place.processes}${machines(place)}` : "");
  const software = (place) => `electra ${place.electra}, torch ${place.torch}`;
  const row = (run) => [
    named(run),
    left(run.environment.map(device).join(", then ") || "not recorded"),
    maybe(duration, seconds(run)),
    maybe(many, run.cost?.tokens),
    operations(run),
    maybe(many, run.cost?.tokens_per_second),
    maybe(share, run.cost?.peak_share),
    left(maybe(software, run.environment.at(-1))),
  ];
  const headings = ["Run", left("Device"), "Time", "Tokens", "FLOPs", "Tokens/s", "Share of peak", left("Software")];
  const problem = (run) => make("p", { class: "note" }, `FLOPs of ${run.name} are unknown: ${run.flops_problem}.`);
  fill("#cost .wide", table(headings, visible().map(row)), visible().filter((run) => run.flops_problem).map(problem));
}

function drawConfigs() {
  const kinds = { pretraining: "pre-training", finetuning: "fine-tuning" };
  const write = (value) => (Array.isArray(value) ? value.join(", ") : maybe(String, value));
  const row = ({ key, meaning, values }) => {
    return [make("td", { class: "key" }, key, make("small", {}, meaning)), ...values.map(write)];
  };
  const drawn = data.configs.map((config) => {
    const body = make("div", { class: "wide" }, table(["Key", ...config.runs], config.rows.map(row)));
    const note = (text) => make("p", { class: "note" }, text);
    if (config.runs.length === 1) {
      return make("details", {}, make("summary", {}, `All keys of ${config.runs[0]}`), body);
    }
    if (!config.rows.length) return note(`The ${kinds[config.kind]} configs are identical.`);
    return make("div", {}, note(`Keys that differ between the ${kinds[config.kind]} runs.`), body);
  });
  if (show("#configs", drawn.length)) fill("#configs > div", drawn);
}

function draw() {
  for (const drawPart of [drawControls, drawVerdicts, drawGlance, drawWarnings, drawCurves]) drawPart();
  for (const drawPart of [drawSamples, drawFinetuning, drawCost, drawConfigs]) drawPart();
  document.documentElement.dataset.drawn = chosen.axis;
}

find("#subtitle").textContent = runs.length === 1 ? runs[0].folder : `${runs.length} runs`;
find("footer").textContent = `Written by electra ${data.electra}. The command’s --json option prints this page’s data.`;
makeControls();
draw();
addEventListener("resize", draw);
