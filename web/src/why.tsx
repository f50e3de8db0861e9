// Why the selected node is on its device, what the step would take with it elsewhere, and pins.
import { useEffect, useState } from "preact/hooks";
import { api } from "./api";
import { COPIES } from "./devices";
import { change, deviceColor, error, messageOf, plan, result, selected } from "./state";
import type { Choice, Pin, Plan, Reason, Result } from "./types";
import { opName } from "./scopes";
import { Button, formatSeconds, Swatch, useSettled } from "./widgets";

const EXPLAIN_AFTER_MS = 120; // while a slider is dragged, the simulator has better things to do
const MAX_LISTED = 300;

interface Answer<T> {
  key: string | null; // what was asked
  value: T | null;
  problem: string | null;
}

// The newest answer of `ask`, which is asked again when `key` changes. The older answer stays until then.
function useAnswer<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>): Answer<T> {
  const [state, setState] = useState<Answer<T>>({ key: null, value: null, problem: null });
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    ask(stop.signal).then(
      (value) => stop.signal.aborted || setState({ key, value, problem: null }),
      (e) => stop.signal.aborted || setState({ key, value: null, problem: messageOf(e) }),
    );
    return () => stop.abort();
  }, [key]);
  return key === null ? { key: null, value: null, problem: null } : state;
}

const covers = (pin: Pin, node: string) => (pin.node.endsWith("/") ? node.startsWith(pin.node) : pin.node === node);

// The simulator applies pins in order, so the last one that covers a node decides.
function pinOf(p: Plan, name: string): Pin | undefined {
  return p.pins?.filter((pin) => covers(pin, name)).at(-1);
}

function withoutPin(p: Plan, pin: Pin): Plan {
  return { ...p, pins: p.pins!.filter((x) => x.node !== pin.node) };
}

function setPin(name: string, device: string): void {
  void change((p) => {
    p.pins = [...(p.pins ?? []).filter((x) => x.node !== name), { node: name, device }];
  });
}

function Difference(p: { from: number; to: number | null }) {
  if (p.to === null) return <span class="muted">not possible</span>;
  const percent = (p.to / p.from - 1) * 100;
  if (Math.abs(percent) < 0.05) return <span class="muted">same</span>;
  const size = Math.abs(percent);
  const text = size >= 1000 ? `${(p.to / p.from).toFixed(0)} times`
    : `${percent > 0 ? "+" : "−"}${size.toFixed(size < 100 ? 1 : 0)} %`;
  return <span class={percent > 0 ? "why-worse" : "why-better"}>{text}</span>;
}

// What a pin costs: the step with it, and the step of the same plan without it.
function PinCost(p: { pin: Pin; name: string }) {
  const free = withoutPin(plan.value, p.pin);
  delete free.cluster; // only the step is compared
  const key = useSettled(JSON.stringify(free), EXPLAIN_AFTER_MS);
  const { key: asked, value } = useAnswer<Result>(key, (signal) => api.simulate(JSON.parse(key), signal));
  const now = result.value!.step_s;
  return (
    <div class="why-pin" data-test="pin-cost" data-with={now} data-without={value?.step_s}
      aria-busy={asked !== JSON.stringify(free)}>
      <p>
        {p.pin.node === p.name ? "Pinned" : <>Pinned with <b>{p.pin.node}</b></>} to <b>{p.pin.device}</b>:
        {" "}step {formatSeconds(now)}
        {value
          ? <>, without the pin {formatSeconds(value.step_s)} (<Difference from={value.step_s} to={now} />).</>
          : " …"}
      </p>
      <Button test="unpin" onClick={() => void change((q) => { 
        q.pins = withoutPin(q, p.pin).pins;
        if (!q.pins!.length) delete q.pins;
      })}>Unpin</Button>
    </div>
  );
}

function ChoiceRow(p: { choice: Choice; reason: Reason; pin: Pin | undefined }) {
  const { choice: c, reason } = p;
  const now = c.device === reason.device;
  const pinned = p.pin?.device === c.device;
  return (
    <tr class={now ? "why-now" : ""} data-test={`why-${c.device}`} data-end={c.end_s ?? undefined}
      data-step={c.step_s ?? undefined}>
      <td><Swatch color={deviceColor(c.device)} />{c.device}</td>
      <td>{formatSeconds(c.end_s)}</td>
      <td>{formatSeconds(c.step_s)}</td>
      <td>
        {now ? <span class="muted">now</span>
          : p.pin ? null : <Difference from={result.value!.step_s} to={c.step_s} />}
      </td>
      <td>
        {!pinned && (
          <Button test={`pin-${c.device}`} aria-label={`Pin to ${c.device}`} title={`Pin to ${c.device}`}
            disabled={c.end_s === null && !p.pin} onClick={() => setPin(reason.node, c.device)}>
            Pin
          </Button>
        )}
      </td>
    </tr>
  );
}

// A pinned node has no choice, but the pin can be moved: the other devices are listed without estimates.
function allChoices(reason: Reason, pin: Pin | undefined): Choice[] {
  if (!pin) return reason.choices;
  const known = new Set(reason.choices.map((c) => c.device));
  const others = (plan.value.devices ?? []).filter((d) => !known.has(d.name!));
  return [...reason.choices, ...others.map((d) => ({ device: d.name!, end_s: null, step_s: null }))];
}

// The simulator's reason. With one device it would be about other devices, which nobody sees.
function reasonText(reason: Reason, pin: Pin | undefined): string {
  if ((plan.value.devices?.length ?? 1) < 2) return `It is on ${reason.device}, the only device.`;
  return `It is on ${reason.device}: ${pin ? "it is pinned" : reason.why}.`;
}

// Nodes that the simulator adds to the step, and that the placer does not know.
const EDGES: Record<string, string | undefined> = {
  _Arg: "brings a value that is fed into the step",
  _Retval: "takes a value that is fetched out of the step",
};

function WhyNode(p: { name: string }) {
  const node = result.value!.nodes.find((n) => n.name === p.name);
  const edge = node && EDGES[node.op];
  // The placer knows a constant that was computed in advance by the name of the node it replaces.
  const placed = node?.label ?? p.name;
  const forExplain = JSON.stringify([{ ...plan.value, cluster: undefined }, placed]);
  const settled = useSettled(forExplain, EXPLAIN_AFTER_MS);
  const { key, value, problem } = useAnswer(node && !edge && !error.value ? settled : null, async (signal) => {
    const [thePlan, name] = JSON.parse(settled) as [Plan, string];
    return (await api.explain(thePlan, name, signal)).reasons.find((r) => r.node === name) ?? null;
  });
  const reason = value?.node === placed ? value : null;
  const pin = edge ? undefined : pinOf(plan.value, placed);
  if (!node)
    return (
      <p class="muted">
        The step does not run <b>{p.name}</b>: nothing that is fetched needs it, or it was merged with another node.
      </p>
    );
  return (
    <>
      <p class="muted">
        {node.label && node.label !== p.name && <><b>{node.label}</b>, </>}
        {opName(node.op)}, {formatSeconds(node.start_s)} to {formatSeconds(node.end_s)}
      </p>
      {edge && <p data-test="why-text">It {edge} and takes no time, so it is not placed by itself.</p>}
      {problem && <p class="why-worse">{problem}</p>}
      {reason && <p data-test="why-text" class={pin ? "hidden" : ""}>{reasonText(reason, pin)}</p>}
      {pin && <PinCost pin={pin} name={placed} />}
      {reason && (
        <table aria-busy={key !== forExplain}>
          <thead>
            <tr>
              <th>Device</th>
              <th title="When this node would end">node ends</th>
              <th title="What the step would take if only this node moved">step takes</th>
              <th title="Of the step">change</th>
              <th><span class="hidden">Pin</span></th>
            </tr>
          </thead>
          <tbody>
            {allChoices(reason, pin).map((c) => <ChoiceRow key={c.device} choice={c} reason={reason} pin={pin} />)}
          </tbody>
        </table>
      )}
      {reason && pin && allChoices(reason, pin).length > 1 && (
        <p class="why-note" data-test="why-pinned">A pinned node has no choice: Unpin it to see what other devices would cost.</p>
      )}
      {reason && !pin && reason.choices.length > 1 && (
        <p class="why-note">If only this node moves; a pin may move others too.</p>
      )}
    </>
  );
}

function WhyScope(p: { name: string }) {
  const nodes = result.value!.nodes.filter((n) => n.name.startsWith(p.name));
  const counts = new Map<string, number>();
  for (const n of nodes) counts.set(n.device, (counts.get(n.device) ?? 0) + 1);
  const pin = pinOf(plan.value, p.name);
  const devices = (plan.value.devices ?? []).map((d) => d.name!);
  return (
    <>
      <p class="muted" title={COPIES}>{nodes.length} nodes of the step</p>
      {pin && <PinCost pin={pin} name={p.name} />}
      <table>
        <thead><tr><th>Device</th><th>nodes</th><th><span class="hidden">Pin</span></th></tr></thead>
        <tbody>
          {devices.map((d) => (
            <tr key={d} data-test={`why-${d}`}>
              <td><Swatch color={deviceColor(d)} />{d}</td>
              <td>{counts.get(d) ?? 0}</td>
              <td>
                {pin?.device !== d && (
                  <Button test={`pin-${d}`} aria-label={`Pin all nodes of ${p.name} to ${d}`}
                    onClick={() => setPin(p.name, d)}>
                    Pin all
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="why-nodes" aria-label={`Nodes of ${p.name}`}>
        {nodes.slice(0, MAX_LISTED).map((n) => (
          <li key={n.name}>
            <button type="button" data-test={`why-node-${n.name}`} onClick={() => (selected.value = n.name)}>
              <Swatch color={deviceColor(n.device)} />
              <span>{n.name.slice(p.name.length)}</span>
              <span class="hidden">on {n.device}</span>
            </button>
          </li>
        ))}
        {nodes.length > MAX_LISTED && <li class="muted">and {nodes.length - MAX_LISTED} more</li>}
      </ul>
    </>
  );
}

// Pins that a link or a dropped plan brought, so that they can be found without the graph.
function PinList() {
  const pins = plan.value.pins ?? [];
  if (!pins.length) return null;
  return (
    <ul class="why-nodes" aria-label="Pins">
      {pins.map((pin) => (
        <li key={pin.node}>
          <button type="button" onClick={() => (selected.value = pin.node)}>
            <Swatch color={deviceColor(pin.device)} /><span>{pin.node} is pinned to {pin.device}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

export function WhyView() {
  const name = selected.value;
  return (
    <section class="why panel" data-test="why" aria-label="Why here">
      <div class="panel-head">
        <h2>Why here?</h2>
        {name !== null && <p class="why-name" data-test="why-name">{name}</p>}
        {name !== null && (
          <Button test="why-close" kind="quiet square" aria-label="Clear the selection"
            onClick={() => (selected.value = null)}>×</Button>
        )}
      </div>
      <div class="why-body">
        {name === null || !result.value ? (
          <>
            <p class="muted">
              Choose a node in the graph to see why it runs on its device, and what it would cost elsewhere. With the
              keyboard: Tab to the graph, arrows to a node, Enter, and Tab to its buttons here.
            </p>
            <PinList />
          </>
        ) : name.endsWith("/") ? <WhyScope name={name} /> : <WhyNode key={name} name={name} />}
      </div>
    </section>
  );
}
