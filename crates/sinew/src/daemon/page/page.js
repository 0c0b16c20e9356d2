// Asks the server for state, history and events, and shows them. Every text is set as text, so that names cannot be markup.
"use strict";

const STATE_MS = 2000;
const HISTORY_MS = 5000;
const CHART = { width: 240, height: 32 };
const SVG = "http://www.w3.org/2000/svg";
const RANK = { info: 0, warning: 1, error: 2 };

const at = (id) => document.getElementById(id);
let state = null;
let history = null;
let events = [];
let paused = false;
let answered = null;

function element(name, fields = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(fields)) {
    if (key === "class") made.className = value;
    else if (key === "label") made.dataset.label = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function vector(name, fields) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(fields)) made.setAttribute(key, value);
  return made;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return `${count.toFixed(unit === 0 || count >= 100 ? 0 : 1)} ${units[unit]}`;
}

function microseconds(us) {
  if (us === null || us === undefined) return "-";
  if (us < 1000) return `${us} µs`;
  return us < 1e6 ? `${(us / 1000).toFixed(us < 10000 ? 1 : 0)} ms` : `${(us / 1e6).toFixed(1)} s`;
}

function duration(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

const percent = (part, whole) => (whole > 0 ? Math.round((part * 100) / whole) : 0);

// Replaces what an element contains, but leaves equal content alone: selections and screen readers keep their place.
function fill(id, ...children) {
  const holder = at(id);
  const fresh = element("div", {}, ...children);
  if (holder.innerHTML !== fresh.innerHTML) holder.replaceChildren(...fresh.childNodes);
}

function list(id, pairs) {
  fill(id, ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function bar(label, part, whole, text) {
  const meter = element("progress", { max: String(Math.max(whole, 1)), value: String(part), "aria-label": label });
  return element("p", {}, `${label}: ${text}`, meter);
}

// A line for each series, all on one scale, and a bar wherever `marks` is not 0.
function chart(label, series, marks) {
  const drawn = vector("svg", {
    viewBox: `0 0 ${CHART.width} ${CHART.height}`, preserveAspectRatio: "none", role: "img", "aria-label": label,
  });
  const title = vector("title", {});
  title.textContent = label;
  drawn.append(title);
  const count = Math.max(2, ...series.map((one) => one.values.length));
  const top = Math.max(1, ...series.flatMap((one) => one.values.map((value) => value ?? 0)));
  const x = (i, length) => (((count - length + i) * CHART.width) / (count - 1)).toFixed(1);
  (marks ?? []).forEach((mark, i) => {
    if (mark === 0) return;
    const place = x(i, marks.length);
    drawn.append(vector("line", { class: "spike", x1: place, x2: place, y1: "0", y2: String(CHART.height) }));
  });
  for (const { kind, values } of series) {
    const points = values.map((value, i) => [i, value]).filter(([, value]) => value !== null);
    const point = ([i, value]) => `${x(i, values.length)},${((1 - value / top) * (CHART.height - 2) + 1).toFixed(1)}`;
    drawn.append(vector("polyline", { class: kind, points: points.map(point).join(" ") }));
  }
  return drawn;
}

// The time that samples cover.
const covered = (samples) => `last ${duration(samples.length * history.step_s)}`;
const most = (values) => Math.max(0, ...values.map((value) => value ?? 0));

function showHealth() {
  const kinds = { healthy: "good", degraded: "fair", "at risk": "bad" };
  const badge = at("health");
  if (badge.textContent !== state.health) badge.textContent = state.health;
  badge.className = `badge ${kinds[state.health] ?? "bad"}`;
  document.title = `${state.health}: ${state.pool} - Sinew`;
  at("pool").textContent = state.pool;
  const shards = `${state.shards} shard${state.shards === 1 ? "" : "s"}`;
  at("form").textContent = `${state.protection}, ${state.data_columns}+${state.parity_columns}, ${shards}, ` +
    `checksums ${state.checksums ? "on" : "off"}`;
  at("safe").textContent = `Data safe: ${state.data_safe}.`;
  const advice = state.advice.map((text) => element("li", {}, text));
  fill("advice", ...(advice.length > 0 ? advice : [element("li", { class: "none" }, "Nothing.")]));
  const injected = state.members.flatMap((member) => member.faults.map((fault) =>
    element("li", {}, `injected fault, member ${member.member}: ${fault.fault}; ${fault.requests} requests so far`)));
  fill("faults", ...injected);
}

function showWork() {
  const shown = state.work.map((work) => {
    const pace = work.per_second === null ? ""
      : `, ${Math.round(work.per_second)} a second, ${duration(work.seconds_left)} left`;
    return bar(work.work, work.done, work.done + work.left,
      `${work.percent} %, ${work.left} ${work.unit} left${pace}`);
  });
  if (state.conversions_left > 0 && !state.work.some((work) => work.work === "conversion")) shown.push(element("p", {}, `conversion: ${state.conversions_left} stripes left`));
  fill("work", ...(shown.length > 0 ? shown : [element("p", { class: "quiet" }, "nothing")]));
}

function showSpace() {
  const shown = [bar("stored", state.stored_bytes, state.capacity_bytes,
    `${bytes(state.stored_bytes)} of ${bytes(state.capacity_bytes)} ` +
    `(${percent(state.stored_bytes, state.capacity_bytes)} %)`)];
  for (const space of state.physical) {
    const members = `physical, member ${space.members.join(", ")}`;
    if (!space.overcommitted || space.free === null) {
      const free = space.free === null ? "" : `, ${bytes(space.free)} free`;
      shown.push(element("p", { class: "quiet" }, `${members}: ${bytes(space.used)} used${free}`));
      continue;
    }
    const total = space.used + space.free;
    const until = space.full_in_s === null ? "" : `, full in ${duration(space.full_in_s)}`;
    shown.push(bar(members, space.used, total, `${bytes(space.used)} of ${bytes(total)}${until}`));
  }
  fill("space", ...shown);
  const stripes = state.stripes;
  const pairs = [
    ["raw free", `${bytes(state.free_bytes)} of ${bytes(state.raw_bytes)}`],
    ["volumes in all", bytes(state.provisioned_bytes) + (state.overprovisioned ? ", more than the capacity" : "")],
    ["stripes mirrored", String(stripes.mirrored)], ["stripes with parity", String(stripes.parity)],
    ["stripes degraded", `${stripes.degraded}, ${stripes.at_risk} at risk`],
  ];
  if (state.array?.elastic) pairs.push(["stripes empty", String(stripes.empty)]);
  list("stripes", pairs);
}

function showRates() {
  const rates = state.per_second ?? {};
  const rate = (name) => rates[name] ?? 0;
  list("rates", [
    ["reads a second", `${Math.round(rate("reads"))} (${bytes(rate("read_bytes"))})`],
    ["writes a second", `${Math.round(rate("writes") + rate("merges"))} (${bytes(rate("written_bytes"))})`],
  ]);
}

function showTraffic() {
  const [reads, writes] = [history.read_bytes_per_s, history.written_bytes_per_s];
  const label = `${covered(reads)}: reads up to ${bytes(most(reads))}/s, writes up to ${bytes(most(writes))}/s`;
  fill("traffic", element("p", { class: "quiet" }, label),
    chart(label, [{ kind: "read", values: reads }, { kind: "write", values: writes }]));
}

function table(id, heads, rows) {
  const head = heads.map(([text, kind]) => element("th", { scope: "col", class: kind ?? "" }, text));
  fill(id, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

function cells(heads, values) {
  return values.map((value, i) =>
    element("td", { class: heads[i][1] ?? "", label: heads[i][0] }, value));
}

function memberChart(member) {
  const seen = history?.members[member.member];
  if (!seen) return "";
  const spikes = seen.spikes.reduce((sum, count) => sum + count, 0);
  const label = `p99 of member ${member.member}, ${covered(seen.spikes)}: reads up to ` +
    `${microseconds(most(seen.read_p99_us))}, writes up to ${microseconds(most(seen.write_p99_us))}; ${spikes} spikes`;
  const series = [{ kind: "read", values: seen.read_p99_us }, { kind: "write", values: seen.write_p99_us }];
  return chart(label, series, seen.spikes);
}

function showMembers() {
  const heads = [["member", "number"], ["state"], ["used", "number"], ["reads p50, p99", "number"],
    ["writes p50, p99", "number"], ["spikes", "number"], ["errors", "number"], ["history", "chart"],
    ["path", "path"]];
  const latency = (of) => (of === null ? "-" : `${microseconds(of.p50)}, ${microseconds(of.p99)}`);
  const rows = state.members.map((member) => {
    const isWell = ["active", "spare", "removed"].includes(member.state);
    const isSlow = member.response !== "responsive" || member.slower_than_peers_s > 0;
    const words = [member.state];
    if (member.timed_out) words.push("timed out");
    if (member.unanswered_s >= 5) words.push(`no answer for ${member.unanswered_s} s`);
    if (member.slower_than_peers_s > 0) words.push(`slow for ${duration(member.slower_than_peers_s)}`);
    else if (member.response !== "responsive") words.push(member.response);
    const kind = isWell ? (isSlow ? "fair" : "") : "bad";
    const errors = member.read_errors + member.checksum_errors;
    return element("tr", {}, ...cells(heads, [
      String(member.member), element("span", { class: kind }, words.join(", ")),
      `${percent(member.chunks_used, member.chunks)} % of ${bytes(member.bytes)}`,
      latency(member.read_latency_us), latency(member.write_latency_us), String(member.spikes),
      `${errors}${member.repaired_blocks > 0 ? `, ${member.repaired_blocks} repaired` : ""}`,
      memberChart(member), member.path,
    ]));
  });
  table("member-table", heads, rows);
}

function showVolumes() {
  const heads = [["volume"], ["size", "number"], ["used", "number"], ["connections", "number"]];
  const rows = state.volumes.map((volume) => element("tr", {}, ...cells(heads, [
    volume.name, bytes(volume.bytes), volume.used_bytes === null ? "-" : bytes(volume.used_bytes),
    String(volume.connections)])));
  table("volume-table", heads, rows);
}

function showEvents() {
  const least = RANK[at("severity").value];
  const kinds = { info: "", warning: "fair", error: "bad" };
  const shown = events.filter((event) => RANK[event.severity] >= least).reverse();
  const rows = shown.map((event) => element("li", {},
    element("time", { datetime: event.time }, new Date(event.time).toLocaleString()),
    event.severity === "info" ? null : element("b", { class: kinds[event.severity] }, event.severity), event.text));
  fill("events", ...(rows.length > 0 ? rows : [element("li", { class: "quiet" }, "none")]));
}

function showPlaces() {
  const places = [state.nbd.unix, state.nbd.tcp].filter((place) => place !== null);
  at("served").textContent = `Sinew ${state.server_version}; NBD on ${places.join(", ") || "no socket"}.`;
}

function show() {
  showHealth();
  showWork();
  showSpace();
  showRates();
  if (history !== null) showTraffic();
  showMembers();
  showVolumes();
  showEvents();
  showPlaces();
}

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer.json();
}

function complain(error) {
  const since = answered === null ? "" : ` What is shown is of ${answered.toLocaleTimeString()}.`;
  at("trouble").textContent = `The server does not answer: ${error.message}.${since}`;
  at("trouble").hidden = false;
}

async function refreshState() {
  if (paused || document.hidden) return;
  try {
    const [fresh, happened] = await Promise.all([get("state"), get("events")]);
    state = fresh;
    events = happened.events;
    answered = new Date();
    at("trouble").hidden = true;
    at("updated").textContent = `State of ${answered.toLocaleTimeString()}.`;
    show();
  } catch (error) {
    complain(error);
  }
}

async function refreshHistory() {
  if (paused || document.hidden) return;
  try {
    history = await get("history");
    if (state !== null) show();
  } catch {
    // The request for the state says it.
  }
}

// The next request begins some time after the last one has ended, so that a slow server is not asked more and more.
function repeat(refresh, pause) {
  refresh().finally(() => setTimeout(() => repeat(refresh, pause), pause));
}

at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").textContent = paused ? "Go on" : "Pause";
  at("pause").setAttribute("aria-pressed", String(paused));
  if (!paused) refreshState();
});
at("severity").addEventListener("change", () => { if (state !== null) showEvents(); });
document.addEventListener("visibilitychange", () => { refreshState(); refreshHistory(); });
repeat(refreshState, STATE_MS);
repeat(refreshHistory, HISTORY_MS);
