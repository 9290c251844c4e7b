"use strict";
// Shows the updates of `/stream`. Data reaches the page only as text nodes: a label or a device name
// may contain anything.

// Time without an update after which the connection counts as lost, in ms. Updates come each second.
const PATIENCE = 5000;
const MAX_EVENTS = 100;
const SHOWN_EVENTS = 20;

// ---- Formats: the same as on the command line ----

const threeDigits = (value) => {
  if (Number.isInteger(value)) return String(value);
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
};

const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  for (; value >= 1024; unit += 1) value /= 1024;
  return `${threeDigits(value)} ${units[unit]}`;
};

const nanos = (value) => {
  const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const [unit, size] = units.find(([, size]) => value >= size) ?? units[0];
  return `${threeDigits(value / size)} ${unit}`;
};

const count = (value) => value.toLocaleString("en-US");

const duration = (seconds) => {
  const units = [["y", 31557600], ["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = Math.max(0, units.findIndex(([, size]) => seconds >= size));
  const parts = units.slice(first < 0 ? 4 : first, first + 2).map(([unit, size]) => {
    const whole = Math.floor(seconds / size);
    seconds -= whole * size;
    return [whole, unit];
  });
  return parts.filter(([whole], at) => at === 0 || whole > 0).map((it) => it.join(" ")).join(" ");
};

const time = (ms) => {
  const text = new Date(ms).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)}`;
};

// Quotes a path for a shell.
const quoted = (text) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

// ---- Elements ----

// Makes an element: "tag.class.class", then children (elements or text; null is left out).
const make = (name, ...children) => {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  element.append(...children.flat().filter((it) => it !== null && it !== undefined));
  return element;
};

const heading = (text) => make("h2", text);

// Makes a paragraph of a text in which commands have backticks.
const withCommands = (name, text) =>
  make(name, text.split("`").map((part, at) => (at % 2 === 1 ? make("code", part) : part)));

// Makes a table. Columns are [head, class]; rows are arrays of cells.
const table = (name, columns, rows) => {
  const head = make("tr", columns.map(([text, kind]) => make(`th${kind}`, text)));
  const body = rows.map((row) => make("tr", row.map((cell, at) => make(`td${columns[at][1]}`, cell))));
  return make("div.table", make(`table${name}`, make("thead", head), make("tbody", body)));
};

// Makes a bar from `from` to `to`, shares of the track.
const track = (kind, from, to) => {
  const bar = make(`div.bar${kind}`);
  bar.style.left = `${100 * from}%`;
  bar.style.width = `${100 * Math.max(0, to - from)}%`;
  return make("div.track", bar);
};

// ---- Parts of a volume ----

const path = (status) => quoted(status.file?.path ?? status.volume);

const title = ({ status }) => {
  const name = status.label || status.volume;
  const more = [
    `layer ${status.layer}`,
    status.read_only ? "read-only" : null,
    `served by process ${status.served_by} (${status.engine})`,
    status.unclean_shutdown ? "after an unclean shutdown" : null,
    status.label ? status.volume : null,
  ];
  const state = make(`span.state.${status.state}`, status.state.toUpperCase());
  return [
    make("h1", state, name),
    make("p.soft.small", more.filter((it) => it).join(", ")),
  ];
};

// What can still be lost, in the words of `hostftl status`.
const redundancy = ({ status }) => {
  const space = status.space;
  const tolerated = space?.failures_tolerated ?? 0;
  const many = tolerated === 1 ? "1 device" : `${tolerated} devices`;
  let text = `${many} can fail without data loss`;
  let kind = "good";
  if (tolerated === 0) {
    text = space ? "none: another device failure loses data" : "none: a failed device loses data";
    kind = "warn";
  }
  if (space?.unreadable_bytes > 0) {
    const [lost, all] = [space.unreadable_bytes, space.physical_bytes].map(bytes);
    text = `none: up to ${lost} of ${all} are unreadable until a lost device returns`;
    kind = "bad";
  } else if (space?.degraded_bytes > 0) {
    text += `; ${bytes(space.degraded_bytes)} of ${bytes(space.physical_bytes)} lack redundancy`;
    kind = "warn";
  }
  if (space?.trim_required_bytes > 0) {
    text += `; trim ${bytes(space.trim_required_bytes)} so that they can be rebuilt`;
  }
  if (space?.damaged_devices?.length > 0) {
    text += `; counted as failed until repaired: device ${space.damaged_devices.join(", ")}`;
  }
  return [make("p.lead", "Redundancy: ", make(`span.${kind}`, text))];
};

// The next command for each state. A problem names its own.
const NEXT = {
  online: (volume) => `Healthy. Details: \`hostftl status ${volume} --long\``,
  rebuilding: (volume) => `Redundancy is being restored. Wait for it: \`hostftl wait ${volume}\``,
  degraded: (volume) => `Replace the device: \`hostftl device replace ${volume} NUMBER NEW\``,
  faulted: (volume) => `Find the cause: \`hostftl events ${volume}\``,
};

const problems = ({ status }) => {
  const isNamed = status.problems.length > 0 && status.state !== "rebuilding";
  return [
    make("ul.problems", status.problems.map((it) => withCommands("li", it))),
    isNamed ? null : withCommands("p.soft", NEXT[status.state](path(status))),
  ];
};

const tasks = ({ status }) => {
  const list = status.tasks ?? [];
  if (list.length === 0) return [heading("Work in progress"), make("p.soft", "none")];
  const item = (task) => {
    const all = task.done_bytes + task.remaining_bytes;
    const share = task.done_bytes / Math.max(1, all);
    const left = task.eta_seconds === null ? "" : `, ${duration(task.eta_seconds)} left`;
    const rate = task.bytes_per_second === null ? "" : `, ${bytes(task.bytes_per_second)}/s`;
    const blocked = task.paused ? ", paused" : task.needs_space ? ", needs space" : "";
    const progress = `${bytes(task.done_bytes)} of ${bytes(all)} (${(100 * share).toFixed(1)} %)`;
    const next = task.task !== "scrub" ? `wait ${path(status)} ${task.task}`
      : `scrub ${path(status)} ${task.paused ? "--resume" : "--pause"}`;
    return make("li", make("strong", task.task), ` ${progress}${rate}${left}${blocked} `,
      make("code", `hostftl ${next}`), track("", 0, share));
  };
  return [heading("Work in progress"), make("ul.tasks", list.map(item))];
};

const HEALTH = { online: "good", errors: "warn", failing: "warn", removed: "warn" };

const devices = ({ status, rates }) => {
  const drive = (it) => it && [
    it.used_percent === null ? null : `${it.used_percent} % of rated life used`,
    it.years_left === null ? null : `${it.years_left.toFixed(1)} years left at this rate`,
    it.celsius === null ? null : `${it.celsius} °C`,
    ...it.warnings,
  ].filter((part) => part).join(", ");
  const each = status.devices;
  const has = each.some((it) => it.drive);
  const columns = [["#", ""], ["State", ".word"], ["Errors", ""], ["Device", ".word"], ["Size", ""],
    ["Written", ""], ["Read", ""], ["Writes/s", ""], ["Reads/s", ""]];
  const rows = each.map((it, at) => [
    String(it.number),
    make(`span.${HEALTH[it.health] ?? "bad"}`, it.health.toUpperCase()),
    count(it.errors),
    [it.name, it.role ? ` (${it.role})` : "", it.replacement ? `, being copied to ${it.replacement}` : ""].join(""),
    bytes(it.bytes), bytes(it.written_bytes), bytes(it.read_bytes),
    ...(rates ? [bytes(rates.devices[at].written), bytes(rates.devices[at].read)] : ["", ""]),
    ...(has ? [drive(it.drive) || "no telemetry"] : []),
  ]);
  return [heading("Devices"), table("", has ? [...columns, ["Drive", ".word"]] : columns, rows)];
};

const load = ({ status, rates }) => {
  if (!status.traffic) return [];
  const now = rates && `${count(rates.requests)} requests/s, host writes ${bytes(rates.hostWritten)}/s, ` +
    `host reads ${bytes(rates.hostRead)}/s, device writes ${bytes(rates.deviceWritten)}/s`;
  const failed = status.traffic.requests_failed;
  return [
    heading("Load"),
    make("p", now ?? "measuring"),
    make("p.soft.small", `${count(status.traffic.requests_answered)} requests answered since the start, `,
      failed > 0 ? make("span.bad", `${count(failed)} failed`) : "none failed"),
  ];
};

// Parts of the device writes; they add up to them.
const CAUSES = ["journal", "data", "padding", "metadata", "garbage_collection", "read_modify_write", "parity"];

const writePath = ({ status }) => {
  const steps = (status.traffic?.write_path ?? []).filter((it) => it.bytes > 0);
  const head = heading("From the host to the devices");
  if (steps.length === 0) return [head, make("p.soft", "no writes since the start")];
  const most = Math.max(...steps.map((it) => it.bytes));
  let end = 0;
  const cells = steps.flatMap((it) => {
    const at = CAUSES.indexOf(it.step);
    const from = at < 0 ? 0 : end;
    if (at >= 0) end += it.bytes;
    const name = it.step === "garbage_collection" ? "gc" : it.step.replaceAll("_", " ");
    const share = it.per_host_byte === null ? "" : it.per_host_byte.toFixed(3);
    return [make("div", name), track(at < 0 ? ".f6" : `.f${at % 6}`, from / most, (from + it.bytes) / most),
      make("div", bytes(it.bytes)), make("div", share)];
  });
  const waf = status.traffic.waf_layer;
  const sum = waf === null ? "" : `1 byte of the host becomes ${waf.toFixed(3)} bytes on the devices, since the start. ` +
    "Last column: bytes for each byte of the host.";
  return [head, make("p.soft.small", sum), make("div.steps", cells)];
};

// Figures of the shadow; only those of the serving layer are partly measured.
const shadow = ({ status: { shadow: it, layer } }) => {
  if (!it) return [];
  const number = (value, error) => {
    if (value === null) return "";
    return error === null ? value.toFixed(2) : `${value.toFixed(2)} ±${error.toFixed(2)}`;
  };
  const name = (one) =>
    one.layer === "passthrough" ? "none" : one.served ? `${layer} (serving)` : one.layer;
  const columns = [["Layer", ".word"], ["Bytes a byte", ""], ["Relative", ""]];
  const rows = it.candidates.filter((one) => !one.failed).map((one) => [
    name(one),
    number(one.waf, one.error),
    one.relative === null ? "" : `×${number(one.relative, one.relative_error)}`,
  ]);
  const failed = it.candidates.filter((one) => one.failed);
  const basis = `Modelled for the drive ${it.drive} on ${(100 * it.sampled).toFixed(3)} % of the volume, ` +
    `${bytes(it.host_bytes)} of writes since ${time(it.since_unix_ms)} UTC.`;
  const doubts = make("ul.problems", it.doubts.map((doubt) => make("li", doubt)));
  return [
    heading("Flash wear with other layers"),
    it.doubts.length > 0 ? doubts : make("p", it.summary),
    rows.length > 0 ? table("", columns, rows) : null,
    ...failed.map((one) => make("p.small", `${name(one)} is not modelled: ${one.failed}`)),
    it.candidates.length > 0 ? make("p.soft.small", basis) : null,
  ];
};

const PARTS = [["data", "physical_bytes"], ["reclaimable", "reclaimable_bytes"], ["free", "free_bytes"],
  ["parity", "parity_bytes"], ["reserved", "reserved_bytes"]];

const space = ({ status }) => {
  const { space, exported_bytes: exported, device_bytes: raw } = status;
  if (!space) return [heading("Space"), make("p", `${bytes(exported)} usable of ${bytes(raw)}`)];
  const percent = (100 * space.logical_bytes / Math.max(1, exported)).toFixed(0);
  const lines = [`${bytes(space.logical_bytes)} of ${bytes(exported)} written (${percent} %)`];
  if (space.compression_ratio) lines.push(`compressed ${space.compression_ratio.toFixed(3)} to 1`);
  if (space.capacity_bytes) {
    lines.push(`${bytes(space.physical_bytes)} of at most ${bytes(space.capacity_bytes)} stored`);
  }
  lines.push(space.full_in_seconds ? `full in ${duration(space.full_in_seconds)} at the recent rate` : "no growth forecast");
  const parts = PARTS.map(([name, field], at) => [name, space[field], `.f${[0, 7, 2, 3, 6][at]}`]);
  const all = Math.max(1, parts.reduce((sum, [, size]) => sum + size, 0));
  const some = parts.filter(([, size]) => size > 0);
  const bars = some.map(([, size, kind]) => {
    const bar = make(`div${kind}`);
    bar.style.width = `${100 * size / all}%`;
    return bar;
  });
  const key = some.map(([name, size, kind]) => make(`li${kind}`, `${name} ${bytes(size)}`));
  return [heading("Space"), make("p", lines.join(", ")), make("div.stack", bars), make("ul.key", key)];
};

// Makes a bar for each range of latencies up to the range `end`; the height is logarithmic.
const histogram = (it, end) => {
  const counts = it.buckets.slice(0, end).map((one, at) => one.count - (it.buckets[at - 1]?.count ?? 0));
  const most = Math.log1p(Math.max(...counts));
  const bars = counts.map((some, at) => {
    const bar = make("div.f0");
    bar.style.height = `${100 * Math.log1p(some) / Math.max(1, most)}%`;
    bar.title = `up to ${nanos(it.buckets[at].up_to_ns)}: ${count(some)}`;
    return bar;
  });
  return [make("div", it.request), make("div.histogram", bars)];
};

const latencies = ({ status }) => {
  const head = heading("Latency since the start");
  const all = status.latencies;
  if (all.length === 0) return [head, make("p.soft", "no requests since the start")];
  const columns = [["Request", ".word"], ["Count", ""], ["Median", ""], ["p99", ""], ["p99.9", ""], ["Max", ""]];
  const rows = all.map((it) => [it.request, count(it.count),
    ...[it.p50_ns, it.p99_ns, it.p999_ns, it.max_ns].map(nanos)]);
  // Longer ranges than the longest latency are empty.
  const used = (it) => it.buckets.findIndex((one) => one.count === it.count) + 1 || it.buckets.length;
  const end = Math.max(...all.map(used));
  const bounds = all[0].buckets;
  const axis = make("div.axis", [bounds[0], bounds[end - 1]].map((it) => make("span", `up to ${nanos(it.up_to_ns)}`)));
  const bars = make("div.histograms", all.flatMap((it) => histogram(it, end)), make("div"), axis);
  const note = make("p.soft.small", "Requests by latency; the height of a bar is logarithmic.");
  return [head, table("", columns, rows), bars, note];
};

const LEVELS = { info: "soft", warning: "warn", error: "bad" };

const events = ({ status, events }) => {
  const rows = events.slice(-SHOWN_EVENTS).reverse().map((it) => [
    time(it.unix_ms),
    make(`span.${LEVELS[it.level] ?? "soft"}`, it.level),
    it.kind,
    it.count > 1 ? `${it.text} (${count(it.count)} times since ${time(it.first_unix_ms)})` : it.text,
  ]);
  const columns = [["Time (UTC)", ".word"], ["Level", ".word"], ["Kind", ".word"], ["Event", ".word.long"]];
  const list = rows.length > 0 ? table(".events", columns, rows) : make("p.soft", "none");
  return [heading("Newest events"), list,
    withCommands("p.soft.small", `All of them: \`hostftl events ${path(status)}\``)];
};

const notes = ({ status }) =>
  status.notes.length === 0 ? [] : [heading("Notes"), make("ul", status.notes.map((it) => make("li", it)))];

// ---- Update ----

// Parts in their order, with the data on which each depends: a part whose data is unchanged keeps its
// elements, so that a text in it stays selected.
const PARTS_OF_PAGE = [
  [title, "", ({ status: it }) => [it.label, it.volume, it.state, it.layer, it.read_only, it.served_by, it.unclean_shutdown]],
  [redundancy, "", ({ status: it }) => [it.space]],
  [problems, "", ({ status: it }) => [it.state, it.problems]],
  [tasks, "", ({ status: it }) => [it.tasks]],
  [devices, "", ({ status: it, rates }) => [it.devices, rates]],
  [load, "", ({ status: it, rates }) => [it.traffic, rates]],
  [writePath, "columns", ({ status: it }) => [it.traffic]],
  [shadow, "columns", ({ status: it }) => [it.shadow]],
  [space, "columns", ({ status: it }) => [it.space, it.exported_bytes]],
  [latencies, "columns", ({ status: it }) => [it.latencies]],
  [notes, "columns", ({ status: it }) => [it.notes]],
  [events, "", ({ events }) => [events]],
];

// Rates between two statuses, in bytes and requests per second.
const ratesBetween = (before, status, seconds) => {
  if (!before?.traffic || !status.traffic || seconds <= 0) return null;
  const rate = (now, then) => Math.max(0, Math.round((now - then) / seconds));
  const [now, then] = [status.traffic, before.traffic];
  return {
    requests: rate(now.requests_answered, then.requests_answered),
    hostWritten: rate(now.host_write_bytes, then.host_write_bytes),
    hostRead: rate(now.host_read_bytes, then.host_read_bytes),
    deviceWritten: rate(now.device_write_bytes.total, then.device_write_bytes.total),
    devices: status.devices.map((it, at) => ({
      written: rate(it.written_bytes, before.devices[at]?.written_bytes ?? it.written_bytes),
      read: rate(it.read_bytes, before.devices[at]?.read_bytes ?? it.read_bytes),
    })),
  };
};

// One volume on the page.
class Volume {
  constructor(uuid) {
    this.element = make("section");
    this.element.dataset.uuid = uuid;
    this.events = [];
    this.places = PARTS_OF_PAGE.map(() => make("div"));
    this.shown = PARTS_OF_PAGE.map(() => null);
    let group = null;
    PARTS_OF_PAGE.forEach(([, kind], at) => {
      if (kind === "") group = null;
      else if (!group) this.element.append(group = make(`div.${kind}`));
      (group ?? this.element).append(this.places[at]);
    });
  }

  // A new connection sends the newest events again.
  forget() {
    this.events = [];
    this.status = null;
  }

  update({ status, events }, now) {
    this.events = [...this.events, ...events].slice(-MAX_EVENTS);
    const rates = ratesBetween(this.status, status, (now - this.at) / 1000);
    [this.status, this.at] = [status, now];
    const data = { status, events: this.events, rates };
    PARTS_OF_PAGE.forEach(([render, , depends], at) => {
      const shown = JSON.stringify(depends(data));
      if (shown === this.shown[at]) return;
      this.shown[at] = shown;
      this.places[at].replaceChildren(...render(data).filter((it) => it !== null));
    });
  }
}

const volumes = new Map();

const show = (updates) => {
  const now = performance.now();
  const main = document.getElementById("volumes");
  for (const uuid of volumes.keys()) {
    if (!updates.some((it) => it.status.uuid === uuid)) volumes.delete(uuid);
  }
  for (const update of updates) {
    const uuid = update.status.uuid;
    if (!volumes.has(uuid)) volumes.set(uuid, new Volume(uuid));
    volumes.get(uuid).update(update, now);
  }
  const elements = updates.map((it) => volumes.get(it.status.uuid).element);
  if (elements.length !== main.children.length || elements.some((it, at) => it !== main.children[at])) {
    main.replaceChildren(...elements);
  }
  const order = ["faulted", "degraded", "rebuilding", "online"];
  const worst = order.find((state) => updates.some((it) => it.status.state === state)) ?? "no volume";
  const names = updates.map((it) => it.status.label || it.status.volume).join(", ");
  document.title = `${worst.toUpperCase()}: ${names} – HostFTL`;
};

// ---- Connection ----

let source = null;
let last = null;

const connection = (isGood) => {
  const since = last === null ? "" : ` The figures below are from ${time(last)} UTC.`;
  const place = document.getElementById("connection");
  const text = isGood ? "live, updated each second" : `No connection to the server; trying again.${since}`;
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("bad", !isGood);
  document.body.classList.toggle("stale", !isGood);
  if (!isGood) document.title = "NO CONNECTION – HostFTL";
};

const connect = () => {
  source?.close();
  source = new EventSource("/stream");
  source.onopen = () => volumes.forEach((it) => it.forget());
  source.onerror = () => connection(false);
  source.onmessage = (message) => {
    last = Date.now();
    show(JSON.parse(message.data));
    connection(true);
  };
};

connect();
// The browser reconnects after an error, but not after a response that is no stream, nor when the
// server stands still.
let due = Date.now() + PATIENCE;
setInterval(() => {
  const now = Date.now();
  if (now - (last ?? 0) < PATIENCE) {
    due = last + PATIENCE;
  } else if (now >= due) {
    connection(false);
    connect();
    due = now + PATIENCE;
  }
}, 1000);
