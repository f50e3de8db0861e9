// Draws the boxes and edges of a layout.
import { useLayoutEffect, useMemo } from "preact/hooks";
import { deviceColor, deviceNames, result } from "./state";
import type { NodeResult } from "./types";
import { bothNames, type Box, deviceShares, knownAs, type Tree } from "./scopes";
import { HEADER, type Layout, pathOf, type Placed } from "./layout";
import { formatSeconds } from "./widgets";

const testName = (b: Box) => (b.kind === "node" ? `node-${b.key}` : `scope-${b.key.slice(0, -1)}`);

// "gpu0 59 nodes, gpu1 172 nodes"
function sharesText(share: Uint32Array, devices: string[]): string {
  const parts = devices.map((d, i) => ({ d, n: share[i] })).filter((s) => s.n > 0);
  if (parts.length === 1) return `on ${parts[0].d}`;
  return parts.map((s) => `${s.d} ${s.n}`).join(", ");
}

function Stripes(props: { share: Uint32Array; devices: string[]; x: number; y: number; w: number; h: number }) {
  const { share, devices, x, y, w, h } = props;
  const total = share.reduce((sum, n) => sum + n, 0) || 1;
  let at = x;
  return (
    <g class="graph-stripes">
      {devices.map((d, i) => {
        if (share[i] === 0) return null;
        const wide = (w * share[i]) / total;
        at += wide;
        return <rect key={d} x={at - wide} y={y} width={wide} height={h} style={{ fill: deviceColor(d) }} />;
      })}
    </g>
  );
}

function NodeBox({ p, node }: { p: Placed; node: NodeResult }) {
  const when = `${formatSeconds(node.start_s)} to ${formatSeconds(node.end_s)}`;
  const duration = formatSeconds(node.end_s - node.start_s);
  return (
    <g
      class="graph-box graph-node"
      data-key={p.box.key}
      data-test={testName(p.box)}
      data-device={node.device}
      role="button"
      tabindex={-1}
      aria-label={`${knownAs(node)}, ${node.op} on ${node.device}, ${when}`}
      transform={`translate(${p.x},${p.y})`}
      style={{ "--c": deviceColor(node.device) }}>
      <title>{`${bothNames(node)}\n${node.op} on ${node.device}\n${when} (${duration})`}</title>
      <rect class="graph-shape" width={p.w} height={p.h} rx="6" />
      <text class="graph-name" x={p.w / 2} y={p.below ? 15 : 16}>
        {p.label}
      </text>
      {p.below && (
        <text class="graph-op" x={p.w / 2} y="27">
          {p.below}
        </text>
      )}
    </g>
  );
}

function ScopeBox({ p, share, devices }: { p: Placed; share: Uint32Array; devices: string[] }) {
  const shares = sharesText(share, devices);
  const only = devices.filter((_, i) => share[i] > 0);
  return (
    <g
      class="graph-box graph-scope"
      data-key={p.box.key}
      data-test={testName(p.box)}
      data-device={only.join(" ")}
      role="button"
      tabindex={-1}
      aria-expanded="false"
      aria-label={`${p.box.key.slice(0, -1)}, ${p.box.count} nodes, ${shares}; expand`}
      transform={`translate(${p.x},${p.y})`}>
      <title>{`${p.box.key.slice(0, -1)}\n${p.box.count} nodes: ${shares}\nClick to expand`}</title>
      {p.box.kind !== "scope" && <rect class="graph-stack" x="4" y="-4" width={p.w} height={p.h} rx="8" />}
      <rect class="graph-shape" width={p.w} height={p.h} rx="8" />
      <text class="graph-name" x={p.w / 2} y={p.below ? 16 : 18}>
        {p.label}
      </text>
      {p.below && (
        <text class="graph-op" x={p.w / 2} y="28.5">
          {p.below}
        </text>
      )}
      <Stripes share={share} devices={devices} x={10} y={p.h - 8} w={p.w - 20} h={4} />
    </g>
  );
}

function OpenScope({ p, share, devices }: { p: Placed; share: Uint32Array; devices: string[] }) {
  const shares = sharesText(share, devices);
  const only = devices.filter((_, i) => share[i] > 0);
  return (
    <g class="graph-open" transform={`translate(${p.x},${p.y})`}>
      <rect class="graph-ground" width={p.w} height={p.h} rx="8" data-depth={p.box.depth % 2} />
      <g
        class="graph-box graph-header"
        data-key={p.box.key}
        data-test={testName(p.box)}
        data-device={only.join(" ")}
        role="button"
        tabindex={-1}
        aria-expanded="true"
        aria-label={`${p.box.key.slice(0, -1)}, ${p.box.count} nodes, ${shares}; collapse`}>
        <title>{`${p.box.key.slice(0, -1)}\n${p.box.count} nodes: ${shares}\nClick to collapse`}</title>
        <rect class="graph-shape" width={p.w} height={HEADER} rx="8" />
        <path class="graph-minus" d={`M10,${HEADER / 2}h9`} />
        <text class="graph-name" x="27" y="15">
          {p.label}
        </text>
      </g>
    </g>
  );
}

const edgeWidth = (count: number, transfer: boolean) => Math.min(7, 1 + Math.log2(count) * 0.6) + (transfer ? 0.8 : 0);

function Edges({ l }: { l: Layout }) {
  return (
    <g class="graph-edges">
      {[...l.segments.values()].map((s) => {
        const port = s.from === s.scope || s.to === s.scope;
        const kind =
          (s.transfers > 0 ? " graph-transfer" : "") + (s.faint ? " graph-faint" : port ? " graph-port" : "");
        const title =
          `${s.count} ${s.count === 1 ? "edge" : "edges"}` +
          (s.transfers > 0 ? `, ${s.transfers} between devices` : "");
        return (
          <path
            key={s.key}
            data-edge={s.key}
            class={`graph-edge${kind}`}
            d={pathOf(s.points)}
            stroke-width={s.faint ? 1 : edgeWidth(s.count, s.transfers > 0).toFixed(1)}
            marker-end={
              s.to === s.scope || s.faint
                ? undefined
                : s.transfers > 0
                  ? "url(#graph-arrow-transfer)"
                  : "url(#graph-arrow)"
            }>
            <title>{title}</title>
          </path>
        );
      })}
    </g>
  );
}

export function Drawing({ l, t, onDrawn }: { l: Layout; t: Tree; onDrawn: (l: Layout) => void }) {
  const r = result.value!;
  const devices = deviceNames.value;
  const shares = useMemo(() => deviceShares(t, r.nodes, devices), [t, r]);
  useLayoutEffect(() => onDrawn(l), [l]);
  return (
    <>
      <g class="graph-grounds">
        {l.order
          .filter((p) => p.open)
          .map((p) => (
            <OpenScope key={p.box.key} p={p} share={shares.get(p.box)!} devices={devices} />
          ))}
      </g>
      <Edges l={l} />
      <g class="graph-boxes">
        {l.order
          .filter((p) => !p.open)
          .map((p) =>
            p.box.node >= 0 ? (
              <NodeBox key={p.box.key} p={p} node={r.nodes[p.box.node]} />
            ) : (
              <ScopeBox key={p.box.key} p={p} share={shares.get(p.box)!} devices={devices} />
            ),
          )}
      </g>
    </>
  );
}
