// What the graph shows of the playhead: boxes that run are lit, and tensors travel along the edges. Classes and
// attributes are set on the elements directly, because this happens in every frame.
import { deviceColor } from "./state";
import type { Result, Transfer } from "./types";
import type { Box } from "./scopes";
import { type Layout, type Point, samplePath, segmentKey, walk } from "./layout";
import { rows, type Span, under } from "./player";

type State = "pending" | "running" | "part" | "done";

interface Shown {
  element: SVGGElement;
  start_s: number;
  end_s: number;
  state: State | null;
  devices: string; // that run it, as last set
}

// Sets classes of the visible boxes by the time of the playhead, and moves the tensors that are on their way.
export class Lights {
  private boxes = new Map<Box, Shown>();
  private routes = new Map<Transfer, Point[][]>();
  private consumers: number[][] | null = null;
  private dots: SVGCircleElement[] = [];

  constructor(
    private svg: SVGSVGElement,
    private layer: SVGGElement,
  ) {}

  // To be called after each drawing.
  reset(l: Layout, r: Result, elements: Map<string, SVGGElement>) {
    this.boxes.clear();
    this.routes.clear();
    this.consumers = null;
    for (const p of l.order) {
      const element = elements.get(p.box.key);
      if (p.open || !element) continue;
      element.classList.remove("graph-pending", "graph-running", "graph-part", "graph-done");
      this.boxes.set(p.box, { element, start_s: Infinity, end_s: -Infinity, state: null, devices: "" });
    }
    r.nodes.forEach((n, i) => {
      const s = this.boxes.get(l.shown[i]);
      if (!s) return;
      s.start_s = Math.min(s.start_s, n.start_s);
      s.end_s = Math.max(s.end_s, n.end_s);
    });
  }

  show(t: number, live: boolean, l: Layout, r: Result) {
    this.svg.classList.toggle("graph-live", live);
    if (!live) {
      for (const d of this.dots) d.setAttribute("visibility", "hidden");
      return;
    }
    const running = new Map<Box, string[]>();
    const flying: Span[] = [];
    for (const row of rows.value) {
      const now = under(row, t);
      if (row.device === null) flying.push(...now);
      else for (const s of now) running.set(l.shown[s.node], [...(running.get(l.shown[s.node]) ?? []), row.device]);
    }
    for (const [box, s] of this.boxes) {
      const devices = running.get(box);
      const state = devices ? "running" : t < s.start_s ? "pending" : t >= s.end_s ? "done" : "part";
      if (state !== s.state) {
        if (s.state) s.element.classList.remove(`graph-${s.state}`);
        s.element.classList.add(`graph-${state}`);
        s.state = state;
      }
      if (devices && s.devices !== devices.join()) {
        // In a scope several devices may run nodes at the same time: the border shows the second one.
        s.element.style.setProperty("--run", deviceColor(devices[0]));
        s.element.style.setProperty("--run-too", deviceColor(devices[1] ?? devices[0]));
        s.devices = devices.join();
      }
    }
    this.move(flying, t, l, r);
  }

  private move(flying: Span[], t: number, l: Layout, r: Result) {
    let used = 0;
    for (const s of flying) {
      const part = (t - s.start_s) / (s.end_s - s.start_s || 1);
      for (const route of this.routesOf(s.transfer!, l, r)) {
        if (used >= 200) break;
        const at = pointAt(route, part);
        const dot = (this.dots[used] ??= this.addDot());
        dot.setAttribute("cx", at.x.toFixed(1));
        dot.setAttribute("cy", at.y.toFixed(1));
        dot.setAttribute("visibility", "visible");
        used++;
      }
    }
    for (let i = used; i < this.dots.length; i++) this.dots[i].setAttribute("visibility", "hidden");
  }

  private addDot() {
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    dot.setAttribute("class", "graph-dot");
    dot.setAttribute("r", "5");
    this.layer.append(dot);
    return dot;
  }

  // The paths of a tensor to the boxes that use it on the receiving device.
  private routesOf(x: Transfer, l: Layout, r: Result): Point[][] {
    const known = this.routes.get(x);
    if (known) return known;
    if (!this.consumers) {
      this.consumers = r.nodes.map(() => []);
      r.nodes.forEach((n, i) => n.inputs?.forEach((input) => this.consumers![input]?.push(i)));
    }
    const found: Point[][] = [];
    const source = l.shown[x.source];
    if (source) {
      const targets = new Set<Box>();
      for (const c of this.consumers[x.source]) if (r.nodes[c].device === x.to) targets.add(l.shown[c]);
      for (const target of targets) {
        if (found.length >= 8) break;
        if (target === source) {
          // Within a collapsed scope: along its lower edge.
          const p = l.placed.get(source)!;
          found.push([
            { x: p.x + 10, y: p.y + p.h - 7 },
            { x: p.x + p.w - 10, y: p.y + p.h - 7 },
          ]);
          continue;
        }
        const route: Point[] = [];
        walk(source, target, (_, from, to) => {
          const s = l.segments.get(segmentKey(from, to));
          if (s) route.push(...samplePath(s.points));
        });
        if (route.length > 1) found.push(route);
      }
    }
    this.routes.set(x, found);
    return found;
  }
}

// The point at a share of the length of a polyline.
function pointAt(points: Point[], share: number): Point {
  let total = 0;
  for (let i = 1; i < points.length; i++)
    total += Math.hypot(points[i].x - points[i - 1].x, points[i].y - points[i - 1].y);
  let rest = total * Math.max(0, Math.min(1, share));
  for (let i = 1; i < points.length; i++) {
    const a = points[i - 1],
      b = points[i];
    const d = Math.hypot(b.x - a.x, b.y - a.y);
    if (rest <= d && d > 0) return { x: a.x + ((b.x - a.x) * rest) / d, y: a.y + ((b.y - a.y) * rest) / d };
    rest -= d;
  }
  return points[points.length - 1];
}
