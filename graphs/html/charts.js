/* ---- figures ---- */

/* An SVG that is drawn anew where its width changes, so that its letters keep their size. */
function figure(parent, height, what, paint) {
  const svg = draw("svg", parent, {role: "img", "aria-label": what, height});
  let drawn = 0;
  function fit() {
    const width = Math.max(240, svg.parentNode.clientWidth);
    if (width === drawn) return;
    drawn = width;
    svg.setAttribute("viewBox", "0 0 " + width + " " + height);
    svg.textContent = "";
    paint(svg, width, height);
  }
  fit();
  new ResizeObserver(fit).observe(parent);
}
function say(svg, x, y, text, anchor) {
  draw("text", svg, {x, y, "text-anchor": anchor || "start"}).textContent = text;
}
/* Horizontal lines at round values from 0, in an axis's unit; `at` has the ends of each and its height. */
function ticks(svg, axis, top, at, n) {
  const step = Math.max(nice(top / axis.unit / n) * axis.unit, 1e-9);
  for (let v = 0; v <= top; v += step) {
    const [x1, x2, y] = at(v);
    draw("line", svg, {x1, x2, y1: y, y2: y, class: "grid-line"});
    say(svg, x1 - 6, y + 4, axis.label(v), "end");
  }
}

/* ---- timeline ---- */

function stepOf(line) {
  let most = 0;
  line.groups.forEach(g => g.lanes.forEach(({spans}) => {
    for (let i = 0; i < spans.length; i += 5) most = Math.max(most, spans[i] + spans[i + 1]);
  }));
  return most / plan.per_us;
}
function timeline() {
  const s = part("timeline"), rows = [], TOP = 22, NAME = 150, FEW = 32;
  plan.timelines.forEach(t => t.groups.forEach(g => g.lanes.forEach(({name, spans}, k) => {
    const list = [];
    for (let i = 0; i < spans.length; i += 5) list.push(i);
    list.sort((a, b) => spans[a] - spans[b]);
    const who = (t.name && plan.timelines.length > 1 ? t.name + " " : "") + "device" +
      (/[-,]/.test(g.devices) ? "s " : " ") + g.devices;
    if (list.length) rows.push({who, lane: name, spans, list, first: k === 0});
  })));
  const end = Math.max(...plan.timelines.map(stepOf)) * plan.per_us;
  legend(s, plan.colours.map((c, i) => [c, i]));
  const tools = make("div", s, null, "tools"), canvas = document.createElement("canvas");
  let from = 0, to = end;
  const tip = make("div", s, null, null);
  tip.id = "tip";
  s.appendChild(canvas);
  const left = plan.groups - plan.timelines[0].groups.length;
  make("p", s, "Devices that do the same are one row" + (left > 0 ? "; " + left + " more rows are left out" : "") +
    ". Wheel or pinch zooms, drag moves, the pointer names a task.", "quiet");
  let palette = [], ink = "", faint = "", grid = "", card = "", shown = rows.slice(0, FEW);
  const ROW = rows.length > 8 ? 17 : 26;
  function colours() {
    const st = getComputedStyle(document.documentElement);
    palette = plan.colours.map((c, i) => st.getPropertyValue("--c" + i).trim());
    ink = st.getPropertyValue("--text").trim();
    faint = st.getPropertyValue("--quiet").trim();
    grid = st.getPropertyValue("--line").trim();
    card = st.getPropertyValue("--card").trim();
  }
  const nameWidth = () => canvas.clientWidth < 560 ? 84 : NAME;
  const x = t => nameWidth() + (t - from) / (to - from) * (canvas.clientWidth - nameWidth());
  function paintSpans(ctx, r, y, w) {
    const scale = (w - nameWidth()) / (to - from);
    let done = -1;
    for (const i of r.list) {
      const a = r.spans[i], b = a + r.spans[i + 1];
      if (b < from || a > to) continue;
      const xa = Math.max(nameWidth(), x(a)), xb = Math.min(w, x(b));
      if (xb - done < 0.35) continue; /* nothing of it would be seen */
      ctx.fillStyle = palette[r.spans[i + 3]];
      ctx.fillRect(xa, y + 2, Math.max(0.5, xb - xa - (xb - xa > 3 ? 0.6 : 0)), ROW - 4);
      done = xb;
      if (xb - xa > 46 && scale) {
        ctx.save();
        ctx.beginPath();
        ctx.rect(xa, y, xb - xa - 2, ROW);
        ctx.clip();
        ctx.fillStyle = card;
        ctx.fillText(plan.names[r.spans[i + 2]], xa + 3, y + ROW / 2 + 0.5);
        ctx.restore();
      }
    }
  }
  function paint() {
    const w = canvas.clientWidth, h = TOP + shown.length * ROW + 4, k = window.devicePixelRatio || 1;
    canvas.style.height = h + "px";
    canvas.width = Math.round(w * k);
    canvas.height = Math.round(h * k);
    const ctx = canvas.getContext("2d");
    ctx.scale(k, k);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    const step = nice((to - from) * 90 / (canvas.clientWidth - nameWidth())), axis = timeUnit(end / plan.per_us);
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      ctx.fillStyle = grid;
      ctx.fillRect(x(t), TOP - 6, 1, h);
      ctx.fillStyle = faint;
      if (x(t) + 60 < w) ctx.fillText(axis.label(t / plan.per_us), x(t) + 3, 9);
    }
    shown.forEach((r, i) => {
      const y = TOP + i * ROW;
      ctx.fillStyle = grid;
      if (r.first) ctx.fillRect(0, y, w, 1);
      ctx.save();
      ctx.beginPath();
      ctx.rect(0, y, nameWidth() - 4, ROW);
      ctx.clip();
      ctx.fillStyle = r.first ? ink : faint;
      ctx.fillText(r.first ? r.who : "  " + r.lane, 0, y + ROW / 2 + 0.5);
      ctx.restore();
      paintSpans(ctx, r, y, w);
    });
  }
  function zoom(factor, at) {
    const wide = Math.min(end, Math.max(50, (to - from) * factor));
    from = Math.max(0, Math.min(end - wide, at - (at - from) / (to - from) * wide));
    to = from + wide;
    paint();
  }
  function move(pixels) {
    const by = -pixels / (canvas.clientWidth - nameWidth()) * (to - from), wide = to - from;
    from = Math.max(0, Math.min(end - wide, from + by));
    to = from + wide;
    paint();
  }
  const timeAt = px => from + (px - nameWidth()) / (canvas.clientWidth - nameWidth()) * (to - from);
  function point(px, py) {
    const r = shown[Math.floor((py - TOP) / ROW)], t = timeAt(px);
    const slack = (to - from) / canvas.clientWidth;
    let found = -1;
    if (r && px >= nameWidth())
      for (const i of r.list)
        if (r.spans[i] - slack <= t && t <= r.spans[i] + r.spans[i + 1] + slack) found = i;
    tip.textContent = found < 0 ? "" : r.who + ": " + plan.names[r.spans[found + 2]] +
      (r.spans[found + 4] ? ", micro-batch " + r.spans[found + 4] : "") + ", " + time(r.spans[found + 1] / plan.per_us) +
      " from " + time(r.spans[found] / plan.per_us);
  }
  [["+", 0.5], ["-", 2], ["all", 1e9]].forEach(([name, f]) => {
    const b = make("button", tools, name);
    b.setAttribute("aria-label", name === "all" ? "show all" : name === "+" ? "zoom in" : "zoom out");
    b.onclick = () => zoom(f, (from + to) / 2);
  });
  if (rows.length > FEW) {
    const b = make("button", tools, "all " + rows.length + " rows");
    b.onclick = () => { shown = rows; b.remove(); paint(); };
  }
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    zoom(Math.exp(e.deltaY * 0.002), timeAt(e.offsetX));
  }, {passive: false});
  const down = new Map();
  canvas.addEventListener("pointerdown", e => { down.set(e.pointerId, e.offsetX); canvas.setPointerCapture(e.pointerId); });
  ["pointerup", "pointercancel"].forEach(n => canvas.addEventListener(n, e => down.delete(e.pointerId)));
  canvas.addEventListener("pointermove", e => {
    point(e.offsetX, e.offsetY);
    if (!down.has(e.pointerId)) return;
    if (down.size === 2) {
      const other = [...down].find(([id]) => id !== e.pointerId)[1];
      const before = Math.abs(down.get(e.pointerId) - other), now = Math.abs(e.offsetX - other);
      if (before > 5 && now > 5) zoom(before / now, timeAt((e.offsetX + other) / 2));
    } else {
      move(e.offsetX - down.get(e.pointerId));
    }
    down.set(e.pointerId, e.offsetX);
  });
  new ResizeObserver(paint).observe(s);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours(); paint(); });
  colours();
  paint();
}

/* ---- memory ---- */

const KINDS = [["weights", 0], ["gradients", 4], ["optimizer states", 1], ["workspace", 6], ["buffers", 2], ["activations", 3]];
function curve(parent, m, us) {
  const n = m.over_time.activations.length, top = Math.max(m.allocated, 1) * 1.08;
  figure(parent, 280, "memory of a device over a step", (svg, W, H) => {
    const L = 62, B = 22, T = 16, R = 10, x = i => L + i / n * (W - L - R), y = v => H - B - v / top * (H - B - T);
    let below = new Array(n).fill(0);
    const points = (v, i) => x(i).toFixed(1) + " " + y(v).toFixed(1) + "L" + x(i + 1).toFixed(1) + " " + y(v).toFixed(1);
    const back = (v, i) => x(i + 1).toFixed(1) + " " + y(v).toFixed(1) + "L" + x(i).toFixed(1) + " " + y(v).toFixed(1);
    ticks(svg, bytesUnit(top), top, v => [L, W - R, y(v)], Math.max(2, H / 60));
    KINDS.forEach(([kind, c]) => {
      const above = below.map((v, i) => v + m.always[kind] + (m.over_time[kind] ? m.over_time[kind][i] : 0));
      const d = "M" + above.map(points).join("L") + "L" + below.map(back).reverse().join("L") + "Z";
      if (above.some((v, i) => v > below[i])) draw("path", svg, {d, style: "fill:" + colour(c)});
      below = above;
    });
    [[m.allocated, "allocated"], [m.limit, "of the device"]].forEach(([v, what]) => {
      if (v > top) return;
      draw("line", svg, {x1: L, x2: W - R, y1: y(v), y2: y(v), style: "stroke:var(--text);stroke-dasharray:4 3"});
      say(svg, W - R, y(v) - 4, bytes(v) + " " + what, "end");
    });
    const axis = timeUnit(us), step = nice(us * 90 / (W - L));
    for (let t = 0; t < us; t += step)
      say(svg, L + t / us * (W - L - R), H - 6, axis.label(t), t ? "middle" : "start");
  });
}
/* At the fullest moment of the step, beside what is free. */
function held(s) {
  const m = report.memory, names = KINDS.map(k => k[0]).filter(k => m[k] > 0), b = make("div", s, null, "bar tall");
  const rows = names.map(k => [k, m[k], KINDS.find(x => x[0] === k)[1]]);
  rows.forEach(([name, v, c]) => {
    const i = make("i", b);
    i.style.width = 100 * v / Math.max(m.limit, m.limit - m.free) + "%";
    i.style.background = colour(c);
    i.title = name + ": " + bytes(v);
  });
  make("p", s, "Device " + m.device + " at its fullest: " + rows.map(r => r[0] + " " + bytes(r[1])).join(", ") +
    (m.gaps ? ", gaps " + bytes(m.gaps) : "") + (m.free < 0 ? "; " + bytes(-m.free) + " too much" :
    "; " + bytes(m.free) + " free") + " of " + bytes(m.limit) + ".");
}
function memory() {
  const s = part("memory"), us = stepOf(plan.timelines[0]);
  legend(s, KINDS);
  if (report.memory) held(s);
  const tools = make("div", s, null, "tools"), choose = make("select", tools), place = make("div", s);
  choose.setAttribute("aria-label", "devices");
  plan.memory.forEach((m, i) => make("option", choose, deviceWords(m.devices) + ": " + bytes(m.allocated)).value = i);
  function show() {
    place.textContent = "";
    curve(place, plan.memory[choose.value], us);
  }
  choose.value = plan.memory.reduce((best, m, i) => m.allocated > plan.memory[best].allocated ? i : best, 0);
  choose.onchange = show;
  make("p", s, "By the schedule: what is allocated is fixed before the first step; what lies between the top of the " +
    "curve and the line is gaps. A device has " + bytes(plan.memory[0].limit) + ".", "quiet");
  show();
}

/* ---- links ---- */

function links() {
  const s = part("links");
  if (!plan.links.length) {
    make("p", s, "Nothing is sent.", "quiet");
    return;
  }
  make("p", s, "Share of the step in which each is busy; it takes one task at a time, so 100 % is full.", "quiet");
  bars(s, plan.links.map(l => [l.kind + " " + l.which, l.busy, percent(l.busy), l.kind.startsWith("network") ? 5 : 4]));
}


/* ---- pure strategies: ffsearch --oracle ---- */

const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
/* Lines over numbers of devices, both axes logarithmic but for shares; `value` of a point, `limit` a line. */
function scalingChart(parent, title, value, axis, log, limit, ideal) {
  const all = report.strategies.flatMap(r => r.points), values = all.map(value).filter(v => v > 0);
  const most = Math.max(...all.map(p => p.devices)), spread = v => log ? Math.log(v) : v;
  const high = log ? Math.max(...values, limit || 0) * 1.2 : 1;
  const low = log ? Math.min(...values, ideal ? ideal(most) : Infinity) / 1.2 : 0;
  const place = make("div", parent, null, "chart");
  make("p", place, title, "quiet");
  figure(place, 300, title, (svg, W, H) => {
    const L = 62, B = 24, T = 8, R = 14, x = n => L + Math.log2(n) / Math.max(1, Math.log2(most)) * (W - L - R);
    const y = v => H - B - (spread(v) - spread(low)) / (spread(high) - spread(low)) * (H - B - T);
    const line = v => [L, W - R, y(v)];
    if (log) logTicks(svg, axis, low, high, line);
    else ticks(svg, axis, high, line, 5);
    for (let n = 1; n <= most; n *= 2)
      if (n === most || x(most) - x(n) > 50 && (x(2 * n) - x(n) > 28 || Math.log2(n) % 2 === 0))
        say(svg, x(n), H - 7, n, n === most ? "end" : "middle");
    if (limit && limit < high) {
      draw("line", svg, {x1: L, x2: W - R, y1: y(limit), y2: y(limit), style: "stroke:var(--text);stroke-dasharray:4 3"});
      say(svg, W - R, y(limit) - 4, axis.label(limit) + " of a device", "end");
    }
    if (ideal) {
      draw("line", svg, {x1: x(1), x2: x(most), y1: y(ideal(1)), y2: y(ideal(most)),
        style: "stroke:var(--quiet);stroke-dasharray:2 4"});
      say(svg, x(most) - 16, y(ideal(most)), "half the time on twice as many", "end"); // below it, also on a phone
    }
    report.strategies.forEach((r, i) => curveOf(svg, r, i, x, p => y(Math.max(value(p), low)), value, axis));
  });
}
/* Times by decades, bytes by powers of 4; fewer where there is no room. */
function logTicks(svg, axis, low, high, at) {
  const inside = (base, digits) => {
    const list = [];
    for (let k = Math.floor(Math.log(low) / Math.log(base)); Math.pow(base, k) <= high; k++)
      digits.forEach(d => { if (d * Math.pow(base, k) >= low && d * Math.pow(base, k) <= high) list.push(d * Math.pow(base, k)); });
    return list;
  };
  const tried = axis.binary ? [inside(2, [1]), inside(4, [1]), inside(16, [1])] : [inside(10, [1, 2, 5]), inside(10, [1])];
  (tried.find(list => list.length <= 9) || tried[tried.length - 1]).forEach(v => {
    const [x1, x2, y] = at(v);
    draw("line", svg, {x1, x2, y1: y, y2: y, class: "grid-line"});
    say(svg, x1 - 6, y + 4, axis.label(v), "end");
  });
}
/* Points are full where the strategy fits in memory. */
function curveOf(svg, r, i, x, y, value, axis) {
  const c = colour(i % 8), d = r.points.map((p, k) => (k ? "L" : "M") + x(p.devices).toFixed(1) + " " + y(p).toFixed(1));
  if (!d.length) return;
  draw("path", svg, {d: d.join(""), style: "fill:none;stroke-width:1.8;stroke:" + c, "stroke-dasharray": DASHES[i % 4]});
  r.points.forEach(p => {
    const dot = draw("circle", svg, {cx: x(p.devices).toFixed(1), cy: y(p).toFixed(1), r: 3.6,
      style: "stroke-width:1.4;stroke:" + c + ";fill:" + (p.fits ? c : "var(--card)")});
    draw("title", dot, {}).textContent = r.name + ", " + p.devices + " devices: " + axis.label(value(p)) +
      (p.fits ? "" : ", does not fit");
  });
}
function scaling() {
  const s = part("scaling"), list = report.strategies;
  document.title = plan.title;
  part("title").textContent = plan.title;
  part("about").textContent = "Graph " + report.graph + ", batch " + report.batch + ", optimizer " + report.optimizer +
    ", costs " + report.costs + "; ffsoap " + plan.version + ".";
  legend(s, list.map((r, i) => [r.name, i % 8]));
  make("p", s, "Full dots fit in memory, hollow ones do not. The batch is the same on all numbers of devices.", "quiet");
  const all = list.flatMap(r => r.points), one = all.find(p => p.devices === 1);
  if (!all.length) return;
  const charts = make("div", s, null, "charts");
  scalingChart(charts, "Step by devices", p => p.predicted_us, {label: us => timeUnit(us).label(us)}, true, 0,
    one && (n => one.predicted_us / n));
  scalingChart(charts, "Communication, share of the step", p => p.communication_us / p.predicted_us,
    {unit: 0.01, label: v => Math.round(100 * v) + " %"}, false);
  scalingChart(charts, "Memory of the device that needs most", p => p.memory_bytes,
    {label: v => bytesUnit(v).label(v), binary: true}, true, report.memory_limit_bytes);
  const best = r => r.points.filter(p => p.fits).reduce((a, p) => a && a.predicted_us <= p.predicted_us ? a : p, null);
  table(s, ["strategy: what is split", "fastest that fits", "on devices", "scales to", "fits from", "why no further"],
    list.map(r => [r.name + ": " + r.splits, best(r) ? time(best(r).predicted_us) : "-", best(r) ? best(r).devices : "-",
      known(r.scales_to) ? r.scales_to : "-", known(r.fits_from) ? r.fits_from : "-", r.why || ""])).className = "words";
}
