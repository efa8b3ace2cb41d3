const data = JSON.parse(document.getElementById("data").textContent);
const plan = data.plan, report = data.report;
const isRun = report.format === "ffsoap-run-report";

/* ---- helpers ---- */

function make(tag, parent, text, cls) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  if (cls) e.className = cls;
  if (parent) parent.appendChild(e);
  return e;
}
function draw(tag, parent, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  parent.appendChild(e);
  return e;
}
const part = id => document.getElementById(id);
const known = v => v !== undefined && v !== null;
const colour = i => "var(--c" + i + ")";
function time(us) {
  if (!known(us)) return "-";
  return us >= 1e6 ? (us / 1e6).toFixed(3) + " s" : us >= 1e3 ? (us / 1e3).toFixed(3) + " ms" : us.toFixed(1) + " us";
}
function bytes(v) {
  if (!known(v)) return "-";
  let unit = 0;
  for (; v >= 1024 && unit < 4; unit++) v /= 1024;
  return (unit ? v.toFixed(1) : v) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}
const percent = v => (100 * v).toFixed(1) + " %";
/* For axes: 1, 2 or 5 times a power of ten that is about `span`; and labels in one unit. */
function nice(span) {
  const base = Math.pow(10, Math.floor(Math.log10(span)));
  return base * (span / base > 5 ? 10 : span / base > 2 ? 5 : span / base > 1 ? 2 : 1);
}
function timeUnit(most) {
  const [unit, name] = most >= 1e6 ? [1e6, "s"] : most >= 1e3 ? [1e3, "ms"] : [1, "us"];
  return {unit, label: us => Number((us / unit).toPrecision(6)) + " " + name};
}
function bytesUnit(most) {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, most)) / 10)));
  return {unit: Math.pow(1024, power),
    label: v => Number((v / Math.pow(1024, power)).toPrecision(4)) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][power]};
}
function legend(parent, names) {
  const l = make("div", parent, null, "legend");
  names.forEach(([name, c]) => {
    const s = make("span", l);
    make("i", s).style.background = colour(c);
    s.appendChild(document.createTextNode(name));
  });
}
function table(parent, head, rows) {
  const t = make("table", make("div", parent, null, "wide"));
  const tr = make("tr", make("thead", t));
  head.forEach(h => make("th", tr, h));
  const body = make("tbody", t);
  rows.forEach(r => {
    const row = make("tr", body);
    r.forEach(c => c instanceof Node ? make("td", row).appendChild(c) : make("td", row, c));
  });
  return t;
}
/* The first rows, and a button for all. */
function longTable(parent, head, rows, few) {
  const t = table(parent, head, rows), more = [...t.rows].slice(few + 1);
  if (!more.length) return t;
  more.forEach(r => { r.hidden = true; });
  const b = make("button", parent, "all " + rows.length + " rows");
  b.onclick = () => { more.forEach(r => { r.hidden = false; }); b.remove(); };
  return t;
}
function bar(parent, share, c) {
  const i = make("i", make("div", parent, null, "bar"));
  i.style.width = Math.min(100, 100 * share) + "%";
  i.style.background = colour(c);
  return i.parentNode;
}
function bars(parent, rows) {
  const b = make("div", parent, null, "bars");
  rows.forEach(([name, share, text, c]) => {
    make("span", b, name);
    bar(b, share, c);
    make("span", b, text, "number");
  });
}

/* ---- summary ---- */

function card(parent, value, what) {
  const c = make("div", parent, null, "card");
  make("b", c, value, String(value).length > 10 ? "long" : null);
  make("span", c, what);
}
function spread(list) {
  const low = Math.min(...list), high = Math.max(...list);
  return bytes(low) === bytes(high) ? bytes(high) : bytes(low) + " to " + bytes(high);
}
function summary() {
  const s = part("summary"), c = make("div", s, null, "cards");
  document.title = plan.title;
  part("title").textContent = plan.title;
  part("about").textContent = "Graph " + plan.graph + " on " + plan.devices + " device" + (plan.devices > 1 ? "s" : "") +
    " of machine " + plan.machine + "; strategy " + report.strategy + "; ffsoap " + plan.version + ".";
  if (isRun) {
    const us = report.step_us;
    card(c, time(us && us.median), "measured step, median" + (us ? "; " + time(us.p10) + " to " + time(us.p90) : ""));
    card(c, time(report.predicted_us), "predicted step");
    if (known(report.speedup)) card(c, report.speedup.toFixed(2) + "x", "speedup, measured");
    if (known(report.samples_per_s)) card(c, report.samples_per_s.toFixed(1), "samples a second");
    if (report.loss && report.loss.length) card(c, report.loss[report.loss.length - 1].toFixed(4), "loss, last step");
  } else {
    card(c, time(report.predicted_us), "predicted step");
    if (known(report.speedup)) card(c, report.speedup.toFixed(2) + "x", "over " + report.baseline);
    if (known(report.samples_per_s)) card(c, report.samples_per_s.toFixed(1), "samples a second");
    if (report.tokens_per_s > 0) card(c, Math.round(report.tokens_per_s).toLocaleString("en"), "tokens a second");
    if (known(report.mfu)) card(c, percent(report.mfu), "MFU");
    if (known(report.lower_bound_us)) card(c, time(report.lower_bound_us), "no strategy is faster");
  }
  if (report.memory_bytes) card(c, spread(report.memory_bytes), "memory of a device");
  if (known(report.comm_bytes)) card(c, bytes(report.comm_bytes), "moved a step");
  if (report.shape) {
    const h = report.shape;
    make("p", s, "Shape: " + shapeWords(h) + "; " +
      h.updated_flat + " of " + h.parameters + " parameters updated in shares; " + h.recomputed + " of " + h.operators +
      " operators recomputed" + (report.bound_by ? "; most of the step is " + report.bound_by : "") + ".");
  }
  if (report.baselines) rivals(s);
}
const deviceWords = devices => (/[-,]/.test(devices) ? "Devices " : "Device ") + devices;
function rivals(s) {
  const own = {name: "this plan", predicted_us: report.predicted_us, memory_bytes: Math.max(...report.memory_bytes),
    comm_bytes: report.comm_bytes, fits: report.fits};
  const all = [own].concat(report.baselines), most = Math.max(...all.map(b => b.predicted_us));
  table(s, ["strategy", "step", "", "by the plan's", "memory", "sent", "fits"], all.map(b => [b.name,
    time(b.predicted_us), bar(null, b.predicted_us / most, b.fits ? b === own ? 0 : 1 : 6),
    (b.predicted_us / own.predicted_us).toFixed(2) + "x", bytes(b.memory_bytes), bytes(b.comm_bytes),
    b.fits ? "yes" : "no"])).className = "rivals";
}

/* ---- predicted beside measured ---- */

function measured() {
  const s = part("measured");
  if (!isRun) { s.remove(); return; }
  const us = report.step_us && report.step_us.median;
  if (us && report.predicted_us) {
    const most = Math.max(us, report.predicted_us);
    bars(s, [["predicted", report.predicted_us / most, time(report.predicted_us), 0],
      ["measured", us / most, time(us), 4]]);
    make("p", s, "Predicted is " + percent(report.predicted_us / us) + " of measured.", "quiet");
  } else {
    make("p", s, "The strategy says no predicted step.", "quiet");
  }
  if (report.tasks && report.tasks.length)
    table(s, ["tasks, all devices together", "runs", "predicted", "measured", "of it waiting"],
      report.tasks.slice().sort((a, b) => b.measured_us - a.measured_us).map(t =>
        [t.class, t.runs, time(t.predicted_us), time(t.measured_us), time(t.waited_us)]));
  else
    make("p", s, "With --profile N the time of each class of tasks stands here.", "quiet");
}

/* ---- time by class ---- */

function times() {
  const s = part("times");
  let rows = [];
  if (report.times_us) {
    const all = Object.values(report.times_us).reduce((a, b) => a + b, 0);
    rows = Object.entries(report.times_us).filter(([, us]) => us > all / 2000).map(([name, us]) =>
      [name, us / all, time(us) + "  " + percent(us / all),
        name.startsWith("exposed") ? 4 : name === "idle" ? 6 : name === "update" ? 3 : name === "recompute" ? 2 : 0]);
    make("p", s, "A device's, in the mean; all adds up to the step.", "quiet");
  } else {
    const sum = plan.colours.map(() => 0);
    plan.timelines[0].groups[0].lanes.forEach(({spans}) => {
      for (let i = 0; i < spans.length; i += 5) sum[spans[i + 3]] += spans[i + 1] / plan.per_us;
    });
    const step = stepOf(plan.timelines[0]);
    rows = sum.map((us, i) => [plan.colours[i], us / step, time(us) + "  " + percent(us / step), i]).filter(r => r[1] > 0);
    make("p", s, deviceWords(plan.timelines[0].groups[0].devices) +
      " in one step; communication may run beside computing.", "quiet");
  }
  bars(s, rows);
  if (report.critical_path && report.critical_path.length) {
    make("p", s, "The longest chain of tasks, by what is on it:", "quiet");
    longTable(s, ["what", "on", "tasks", "time", "of the step"], report.critical_path.map(c =>
      [c.what, c.on, c.tasks, time(c.us), percent(c.us / report.predicted_us)]), 10).className = "path";
  }
}

/* ---- --explain and --vary ---- */

const signed = (v, text) => (v > 0 ? "+" : v < 0 ? "-" : "") + text(Math.abs(v));
const MORE = [["nothing", "nothing more"], ["memory_1_gib", "1 GiB more memory a device"], ["inside_10_percent", "10 % faster links inside nodes"],
  ["network_10_percent", "10 % faster network of nodes"]];
function why() {
  const s = part("why"), e = report.explain;
  if (!e) { s.remove(); return; }
  const was = e.data_parallel_times_us, now = report.times_us, sum = o => Object.values(o).reduce((a, b) => a + b, 0);
  const step = sum(was);
  const rows = Object.keys(now).filter(k => was[k] + now[k] > 0.001 * step).map(k => [k, was[k], now[k]]);
  make("p", s, "A device's time in the mean, beside data parallelism's:", "quiet");
  table(s, ["time", "data-parallel", "this plan", "difference"], rows.concat([["step", step, sum(now)]]).map(r =>
    [r[0], time(r[1]), time(r[2]), signed(r[2] - r[1], time)]));
  make("p", s, "What more of something would bring. " + (e.binds === report.bound_by
    ? "None saves more than 1 %; most of the step is " + e.binds + "." : "Saves most: " + e.binds + "."), "quiet");
  const least = (...us) => Math.min(...us.filter(known));
  const searched = known(e.nothing.searched_us), from = least(report.predicted_us, e.nothing.searched_us);
  table(s, ["with", "the same plan", "searched again", "saves"], MORE.filter(m => searched || m[0] !== "nothing").map(
    ([key, name]) => {
      const m = e[key], best = least(m.carried_us, m.searched_us), was = key === "nothing" ? report.predicted_us : from;
      return [name, time(m.carried_us), time(m.searched_us),
        isFinite(best) ? percent(Math.max(0, (was - best) / report.predicted_us)) : "-"];
    }));
}
function shapeWords(h) {
  return "data " + h.data + (h.spatial > 1 ? ", spatial " + h.spatial : "") + ", tensor " + h.tensor + ", pipeline " +
    h.pipeline + ", " + h.micro_batches + " micro-batch" + (h.micro_batches > 1 ? "es" : "");
}
const zero = h => h.dropped ? ", ZeRO-3" : !h.updated_flat ? "" : h.scattered ? ", ZeRO-2" : ", ZeRO-1";
function whatIf() {
  const s = part("vary");
  if (!report.vary) { s.remove(); return; }
  const keys = [["batch", "batch", v => v], ["memory_bytes", "memory limit", bytes], ["devices", "devices", v => v],
    ["network_bytes_per_s", "network", v => Number((v * 8 / 1e9).toPrecision(6)) + " Gbit/s"]]
    .filter(k => report.vary.some(v => known(v.with[k[0]])));
  const step = r => !r ? "-" : r.fits ? time(r.predicted_us) : "no memory";
  make("p", s, "The plan under other circumstances: carried over, and searched again from there.", "quiet");
  table(s, keys.map(k => k[1]).concat(["carried", "searched", "samples a second", "memory", "shape"]), report.vary.map(v => {
    const best = v.searched || v.carried;
    return keys.map(k => known(v.with[k[0]]) ? k[2](v.with[k[0]]) : "-").concat([step(v.carried), step(v.searched),
      best ? v.samples_per_s.toFixed(0) : "-", best ? bytes(best.memory_bytes) : "-", best ? shapeWords(v.shape) + zero(v.shape) : v.why]);
  })).className = "words";
}

/* ---- strategy ---- */

const LABELS = {S: ["sample", 0], A: ["attribute (height, width, sequence)", 3], P: ["parameter", 4], R: ["reduction", 5]};
function cells(parent, layer) {
  const g = make("div", parent, null, "grid"), by = Object.entries(layer.degrees);
  const n = Math.min(layer.parts, 16), own = by.length ? by : [["", 1]];
  for (let i = 0; i < n; i++) {
    const k = own[Math.floor(i * own.length / n)][0];
    make("i", g).style.background = k ? colour(LABELS[k][1]) : colour(6);
  }
  g.title = layer.parts + " parts";
}
function strategy() {
  const s = part("strategy");
  legend(s, Object.values(LABELS).concat([["whole", 6]]));
  make("p", s, "Operators in the graph's order; those that stand together and are split alike are one row. " +
    "A bar has a cell a part, 16 at most, in the colours of the dims that are cut.", "quiet");
  if (report.splits && report.splits.some(x => known(x.gain_us)))
    longTable(s, ["split", "operators", "time", "gains", "layers"], report.splits.map(x => [x.split, x.operators,
      time(x.us), known(x.gain_us) ? time(x.gain_us) : "", x.names]), 8).className = "words";
  const list = make("div", s, null, "layers");
  const several = plan.layers.some(l => l.stage > 0);
  let stage = -1;
  const runs = [];
  plan.layers.forEach(l => {
    const last = runs[runs.length - 1];
    if (last && ["split", "devices", "stage", "again"].every(k => last[0][k] === l[k])) last.push(l);
    else runs.push([l]);
  });
  runs.forEach(run => {
    if (several && run[0].stage !== stage) make("div", list, "stage " + (stage = run[0].stage), "stage");
    const first = layerRow(list, run[0]);
    if (run.length === 1) return;
    const name = first.querySelector(".name"), more = run.slice(1).map(l => layerRow(list, l)), shut = name.textContent;
    const all = run.reduce((n, l) => n + l.n, 0);
    const toggle = make("button", null, ""), show = open => {
      more.forEach(m => { m.hidden = !open; });
      name.textContent = open ? shut : run[0].name + " to " + run[run.length - 1].name + " ";
      toggle.textContent = open ? "fold" : all + " operators";
      name.appendChild(toggle);
      toggle.onclick = () => show(!open);
    };
    show(false);
  });
}
function layerRow(list, l) {
  const row = make("div", list, null, "layer"), by = Object.keys(l.degrees);
  row.style.setProperty("--dot", colour(by.length ? LABELS[by[by.length - 1]][1] : 6));
  make("span", row, l.name + (l.n > 1 ? "  x" + l.n : "") + " ", "name");
  cells(row, l);
  make("span", row, l.split + (l.again ? ", recomputed" : ""), "say");
  make("span", row, "devices " + l.devices, "say quiet");
  return row;
}

