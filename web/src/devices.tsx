// Devices and links: what they can do, and how busy they were.
import { useEffect, useRef } from "preact/hooks";
import { change, deviceColor, error, plan, result, story } from "./state";
import type { Device, Link, Plan } from "./types";
import {
  bandwidth, Bar, Button, bytes, factor, formatLarge, formatPercent, formatSeconds, microseconds, NumberField, Slider,
  Swatch,
} from "./widgets";

// What the simulator assumes where a plan says nothing (docs/sim.md).
const UNLIMITED_BYTES = 1e18;
const USUAL = { CPU: { flops: 2e10, op_us: 1 }, GPU: { flops: 4e12, op_us: 5 } };
const USUAL_LINK = { latency_us: 10, bytes_per_s: 1e10 };
const USUAL_NETWORK = { latency_us: 100, bytes_per_s: 1e9 };
const MAX_DEVICES = 64;

// Why the number of nodes changes with the devices.
export const COPIES = "With more devices there are more nodes: constants are copied to each device that needs them.";

function addDevice(type: "CPU" | "GPU"): void {
  void change((p) => {
    const names = new Set(p.devices!.map((d) => d.name));
    let number = 0;
    while (names.has(`${type.toLowerCase()}${number}`)) number++;
    const device: Device = { name: `${type.toLowerCase()}${number}`, type };
    const task = p.devices!.at(-1)?.task;
    if (task) device.task = task;
    p.devices!.push(device);
  });
}

// Links and pins that name the device go with it; the simulator would refuse them.
function removeDevice(name: string): void {
  void change((p) => {
    p.devices = p.devices!.filter((d) => d.name !== name);
    if (p.links) p.links = p.links.filter((l) => l.from !== name && l.to !== name);
    if (p.pins) p.pins = p.pins.filter((x) => x.device !== name);
    if (!p.links?.length) delete p.links;
    if (!p.pins?.length) delete p.pins;
  });
}

function changeDevice(i: number, edit: (d: Device) => void): void {
  void change((p) => edit(p.devices![i]));
}

function Card(p: { device: Device; index: number; removable: boolean }) {
  const { device: d, index: i } = p;
  const name = d.name!;
  const type = d.type ?? "CPU";
  const color = deviceColor(name);
  const r = result.value;
  const was = r?.devices.find((x) => x.name === name);
  const share = was && r!.step_s > 0 ? was.busy_s / r!.step_s : 0;
  const speed = (d.flops_per_s ?? USUAL[type].flops) * (d.speedup ?? 1);
  return (
    <li class="devices-card" data-test={`device-${name}`} style={{ "--slider-color": color }}>
      <div class="devices-head">
        <Swatch color={color} />
        <h3>{name}</h3>
        <span class={`devices-busy ${error.value ? "stale" : ""}`} data-test={`busy-${name}`}
          title={was && r!.devices.length > 1 ? `${r!.step_nodes} nodes on all devices. ${COPIES}` : undefined}>
          {was ? `${formatPercent(share)} busy, ${was.nodes} nodes` : "…"}
        </span>
        <label class="devices-task" title={"Devices with the same number are in one host (one process, which TensorFlow calls a task) and use the " +
          "link between devices. Those of different hosts use the network."}>
          host
          <NumberField test={`task-${name}`} name={`Task of ${name}`} value={d.task ?? 0} low={0} high={9999}
            onChange={(v) => changeDevice(i, (x) => { x.task = v; })} />
        </label>
        <Button test={`remove-${name}`} kind="quiet square" disabled={!p.removable} aria-label={`Remove ${name}`}
          title={p.removable ? `Remove ${name}` : "One device must stay"} onClick={() => removeDevice(name)}>×</Button>
      </div>
      <Bar share={share} color={color} name={`${name} busy`} />
      <div class="devices-speed">
        <Slider label="Speed" name={`Speed of ${name}`} test={`speed-${name}`} quantity={factor} color={color}
          value={d.speedup ?? 1} low={0.01} high={100} least={1e-6} most={1e6}
          title={`How many times as fast as a usual ${type}`}
          onChange={(v) => changeDevice(i, (x) => { x.speedup = v; })} />
        <span class="muted" title={`${type} with ${formatLarge(speed, "")}floating-point operations per second` +
          (was?.alone_s ? `. Alone it would need ${formatSeconds(was.alone_s)} for a step.` : "")}>
          {formatLarge(speed, "FLOP/s")}
        </span>
      </div>
      <div class="devices-more">
        <Slider label="Memory" name={`Memory of ${name} for variables`} test={`memory-${name}`} quantity={bytes}
          color={color} value={d.memory_bytes ?? UNLIMITED_BYTES}
          low={1e5} high={1e11} least={1} unlimited={UNLIMITED_BYTES}
          title="Memory for variables: the placer puts no more of them on this device"
          onChange={(v) => changeDevice(i, (x) => {
            if (v >= UNLIMITED_BYTES) delete x.memory_bytes;
            else x.memory_bytes = v;
          })} />
        <Slider label="Overhead" name={`Overhead per node on ${name}`} test={`overhead-${name}`}
          quantity={microseconds} color={color} value={d.op_us ?? USUAL[type].op_us} low={0.1} high={1000} least={0}
          most={1e9} title="Overhead: how long the start of each node takes, however small the node is"
          onChange={(v) => changeDevice(i, (x) => { x.op_us = v; })} />
      </div>
    </li>
  );
}

function LinkCard(p: {
  title: string; name: string; test: string; link: Link; usual: Required<Link>;
  onChange: (edit: (l: Link) => void) => void; onRemove?: () => void;
}) {
  return (
    <li class="devices-card" data-test={p.test}>
      <div class="devices-head">
        <h3>{p.title}</h3>
        {p.onRemove && (
          <span class="devices-task">
            <Button test={`${p.test}-remove`} kind="quiet square" aria-label={`Treat ${p.name} like the other links`}
              title="Treat it like the other links" onClick={p.onRemove}>×</Button>
          </span>
        )}
      </div>
      <Slider label="Bandwidth" name={`Bandwidth of ${p.name}`} test={`${p.test}-bandwidth`} quantity={bandwidth}
        value={p.link.bytes_per_s ?? p.usual.bytes_per_s} low={1e6} high={1e12} least={1} most={1e21}
        onChange={(v) => p.onChange((l) => { l.bytes_per_s = v; })} />
      <Slider label="Latency" name={`Latency of ${p.name}`} test={`${p.test}-latency`} quantity={microseconds}
        value={p.link.latency_us ?? p.usual.latency_us} low={0.1} high={1e5} least={0} most={1e9}
        onChange={(v) => p.onChange((l) => { l.latency_us = v; })} />
    </li>
  );
}

// Pairs of devices without an entry in `links`.
function freePairs(p: Plan): [Device, Device][] {
  const pairs: [Device, Device][] = [];
  const devices = p.devices ?? [];
  const both = (p.links ?? []).filter((l) => l.both !== false);
  const own = new Set(both.flatMap((l) => [`${l.from} ${l.to}`, `${l.to} ${l.from}`]));
  devices.forEach((a, i) => devices.slice(i + 1).forEach((b) => {
    if (!own.has(`${a.name} ${b.name}`)) pairs.push([a, b]);
  }));
  return pairs;
}

function Links() {
  const p = plan.value;
  const devices = p.devices ?? [];
  const tasks = new Set(devices.map((d) => d.task ?? 0));
  const sameTask = tasks.size < devices.length;
  const pairs = freePairs(p);
  const addLink = (a: Device, b: Device) =>
    void change((q) => {
      const like = (a.task ?? 0) === (b.task ?? 0) ? { ...USUAL_LINK, ...q.link } : { ...USUAL_NETWORK, ...q.network };
      (q.links ??= []).push({ from: a.name!, to: b.name!, ...like });
    });
  return (
    <>
      {sameTask && devices.length > 1 && (
        <LinkCard title="Link between devices" name="the link between devices" test="link" link={p.link ?? {}}
          usual={USUAL_LINK} onChange={(edit) => void change((q) => edit((q.link ??= {})))} />
      )}
      {tasks.size > 1 && (
        <LinkCard title="Network between hosts" name="the network between hosts" test="network" link={p.network ?? {}}
          usual={USUAL_NETWORK} onChange={(edit) => void change((q) => edit((q.network ??= {})))} />
      )}
      {(p.links ?? []).map((l, i) => (
        <LinkCard key={`${l.from} ${l.to} ${l.both}`}
          title={`Only ${l.from} ${l.both === false ? "→" : "↔"} ${l.to}`}
          name={`the link ${l.from} ${l.to}`} test={`link-${l.from}-${l.to}`} link={l} usual={USUAL_LINK}
          onChange={(edit) => void change((q) => edit(q.links![i]))}
          onRemove={() => void change((q) => {
            q.links!.splice(i, 1);
            if (!q.links!.length) delete q.links;
          })} />
      ))}
      {pairs.length > 0 && (devices.length > 2 || tasks.size > 1) && (
        <li>
          <select class="select devices-add" data-test="link-add" aria-label="Add a link that differs from the others"
            value="" onChange={(e) => {
              const pair = pairs[Number(e.currentTarget.value)];
              e.currentTarget.value = "";
              if (pair) addLink(...pair);
            }}>
            <option value="">Make one link different …</option>
            {pairs.map(([a, b], i) => <option key={i} value={i}>{a.name} ↔ {b.name}</option>)}
          </select>
        </li>
      )}
    </>
  );
}

// A story about a slow device asks people to move its slider, so its card must be in view. Only the list scrolls: on a
// phone, where the whole page would have to, it stays where it is.
function useSlowDeviceInView() {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    const devices = story.value === null ? [] : (plan.value.devices ?? []);
    const slow = devices.findIndex((d) => (d.speedup ?? 1) < 1);
    const card = list.current?.children[slow];
    if (!card) return;
    const hidden = card.getBoundingClientRect().bottom - list.current!.getBoundingClientRect().bottom;
    if (hidden > 0) list.current!.scrollTop += hidden;
  }, [story.value]);
  return list;
}

export function DevicesView() {
  const list = useSlowDeviceInView();
  const devices = plan.value.devices ?? [];
  const full = devices.length >= MAX_DEVICES;
  return (
    <section class="devices panel" aria-label="Devices and links">
      <div class="panel-head">
        <h2>Devices and links</h2>
        <Button test="add-cpu" disabled={full} onClick={() => addDevice("CPU")}>+ CPU</Button>
        <Button test="add-gpu" disabled={full} onClick={() => addDevice("GPU")}>+ GPU</Button>
      </div>
      <ul class="devices-list" ref={list}>
        {devices.map((d, i) => <Card key={d.name} device={d} index={i} removable={devices.length > 1} />)}
        <Links />
        {devices.length > 1 && result.value && (
          <li class="devices-note muted" data-test="node-count">
            {result.value.step_nodes} nodes in this step. {COPIES}
          </li>
        )}
      </ul>
    </section>
  );
}
