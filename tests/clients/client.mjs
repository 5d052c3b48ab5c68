// What Node programs send: each line says the name of an event and what was heard.

import http from "node:http";

const to = process.argv[2];
const body = (name) => JSON.stringify({ eventId: name, deviceId: "client" });
const say = (name, status, text) => console.log(`${name} ${status} ${text}`);

async function byFetch(name, init) {
  const answer = await fetch(to, { method: "POST", signal: AbortSignal.timeout(10_000), ...init });
  say(name, answer.status, await answer.text());
}

function byRequest(name, headers, pieces) {
  return new Promise((resolve, reject) => {
    const request = http.request(to, { method: "POST", headers, timeout: 10_000 }, (answer) => {
      let text = "";
      answer.on("data", (piece) => (text += piece));
      answer.on("end", () => resolve(say(name, answer.statusCode, text)));
    });
    request.on("error", reject);
    request.on("timeout", () => request.destroy(new Error(`${name}: no answer`)));
    for (const piece of pieces) request.write(piece);
    request.end();
  });
}

const pieces = (name) => [body(name).slice(0, 9), body(name).slice(9)];
await byFetch("node-fetch", { body: body("node-fetch") });
const stream = new Blob(pieces("node-fetch-stream")).stream();
await byFetch("node-fetch-stream", { body: stream, duplex: "half" });
const length = { "Content-Length": body("node-request").length };
await byRequest("node-request", length, pieces("node-request"));
await byRequest("node-request-chunked", {}, pieces("node-request-chunked"));
