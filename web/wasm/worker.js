// web/wasm/worker.js -- the worker in which the simulator runs; Emscripten's part (createSimulator) comes before it.
//
// The first message is {module}. Each further one is {target, body}: a request as the server of `millrace board` gets
// it, a POST if there is a body. The answer is {status, text}; status 0: the simulator has failed for good.
let simulator;

self.onmessage = async ({ data: { module, target, body } }) => {
  if (module) {
    simulator = createSimulator({
      instantiateWasm: (imports, received) => {
        WebAssembly.instantiate(module, imports).then(received);
        return {};
      },
    });
    return;
  }
  try {
    self.postMessage(ask(await simulator, target, body));
  } catch (e) {
    // Such as a stack that is too small or no more memory: the state of the module is not known any more.
    self.postMessage({ status: 0, text: String(e) });
  }
};

function ask(m, target, body) {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const type = typeof body === "string" ? "application/json" : "application/octet-stream";
  const n = bytes?.length ?? 0;
  const at = m._page_buffer(n);
  if (!at) return { status: 0, text: "no memory for the request" };
  if (n) m.HEAPU8.set(bytes, at);
  const status = m.ccall("page_ask", "number", ["string", "string", "string", "number", "number"],
    [body === undefined ? "GET" : "POST", target, type, at, n]);
  const from = m._page_reply();
  return { status, text: new TextDecoder().decode(m.HEAPU8.subarray(from, from + m._page_reply_bytes())) };
}
