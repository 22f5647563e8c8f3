// The measured workflows on Restate: its server, and a service in this process that the server calls.
//
// Given to `node --eval`. Without arguments it says what is installed. With a directory it serves measurements: a line of JSON on stdin
// asks for one, a line on stdout has its figures. It ends with its stdin, and the server with it.
"use strict";

const { execFileSync, spawn } = require("node:child_process");
const fs = require("node:fs");
const http2 = require("node:http2");
const net = require("node:net");
const path = require("node:path");
const readline = require("node:readline");
const { createRequire } = require("node:module");

// Its warnings are of no use here, and it expects this function, which Node.js has from 22 on.
process.env.RESTATE_LOGGING ??= "ERROR";
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

// As for a program in the directory that this is run from; NODE_PATH is looked through too.
const find = createRequire(path.join(process.cwd(), "none.cjs"));
const restate = find("@restatedev/restate-sdk");
const shim = find.resolve("@restatedev/restate-server/package.json");
const program = createRequire(shim).resolve(
  `@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`,
);

// A run is accepted when it is started and makes its first step when the gate opens: what is measured are the steps.
let gate;
let entered;

/** A gate, and the promise that so many runs stand before it. */
function close(runs) {
  let open, all, there = 0;
  const opened = new Promise((resolve) => (open = resolve));
  const ready = new Promise((resolve) => (all = resolve));
  gate = opened;
  entered = () => ++there === runs && all();
  return { open, ready };
}

const service = restate.service({
  name: "bench",
  handlers: {
    async compute(ctx, { steps }) {
      entered();
      await gate;
      let sum = 0;
      for (let i = 0; i < steps; i++) sum += await ctx.run("add", () => i);
      return sum;
    },
    async post(ctx, { steps, url }) {
      entered();
      await gate;
      let sum = 0;
      for (let i = 0; i < steps; i++) sum += await ctx.run("post", () => posted(url, i));
      return sum;
    },
  },
});

async function posted(url, i) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify({ i }) });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.status;
}

async function call(url, body) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${text}`);
  return text;
}

/** All runs, from the opening of the gate until each one's result is known. */
async function measure(ingress, { runs, steps, url }) {
  const { open, ready } = close(runs);
  const expected = url === undefined ? (steps * (steps - 1)) / 2 : 200 * steps;
  let began;
  const all = Array.from({ length: runs }, async (_, n) => {
    const handler = url === undefined ? "compute" : "post";
    const result = await call(`${ingress}/bench/${handler}`, { steps, url: url && `${url}/${n}` });
    if (Number(result) !== expected) throw new Error(`a run returned ${result}, not ${expected}`);
    return (performance.now() - began) * 1e3;
  });
  const ended = Promise.all(all);
  await Promise.race([ready, ended]);
  began = performance.now();
  open();
  return { each_us: await ended };
}

/** The settings that say when what is written is synced, as the server itself gives them. */
function settings() {
  const text = execFileSync(program, ["--dump-config"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const of = (section, name) => {
    const from = text.split(`\n[${section}]\n`)[1] ?? "";
    return from.split("\n[")[0].match(new RegExp(`^${name} = (.*)$`, "m"))?.[1] ?? "unknown";
  };
  const fsync = of("log-server", "rocksdb-disable-wal-fsync");
  return `bifrost.default-provider=${of("bifrost", "default-provider")}, log-server.rocksdb-disable-wal-fsync=${fsync}`;
}

function versionOf(file) {
  for (let dir = path.dirname(file); dir !== path.dirname(dir); dir = path.dirname(dir)) {
    const description = path.join(dir, "package.json");
    const { name, version } = fs.existsSync(description) ? JSON.parse(fs.readFileSync(description, "utf8")) : {};
    if (name?.startsWith("@restatedev/")) return `${name} ${version}`;
  }
  return `${file} of an unknown version`;
}

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function until(so) {
  const late = Date.now() + 60_000;
  for (;;) {
    try {
      return await so();
    } catch (error) {
      if (Date.now() > late) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

async function serve(dir) {
  const [node, admin, ingress] = await Promise.all([freePort(), freePort(), freePort()]);
  const at = (port) => `127.0.0.1:${port}`;
  const server = spawn(program, ["--no-logo", "--base-dir", dir, "--node-name", "bench", "--listen-mode", "tcp"], {
    stdio: ["ignore", 2, 2],
    env: {
      ...process.env,
      RESTATE_BIND_ADDRESS: at(node),
      RESTATE_ADVERTISED_ADDRESS: `http://${at(node)}`,
      RESTATE_ADMIN__BIND_ADDRESS: at(admin),
      RESTATE_INGRESS__BIND_ADDRESS: at(ingress),
      RESTATE_DISABLE_TELEMETRY: "true",
      RESTATE_LOG_FILTER: "off",
    },
  });
  process.on("exit", () => server.kill("SIGKILL"));
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
  server.on("exit", () => process.exit(1));
  const lines = readline.createInterface({ input: process.stdin });
  const asked = lines[Symbol.asyncIterator]();
  lines.on("close", () => process.exit(0));
  const endpoint = restate.createEndpointHandler({ services: [service] });
  const listening = http2.createServer(endpoint);
  await new Promise((resolve) => listening.listen(0, "127.0.0.1", resolve));
  const uri = `http://${at(listening.address().port)}`;
  await until(() => call(`http://${at(admin)}/deployments`, { uri }));
  await until(() => measure(`http://${at(ingress)}`, { runs: 1, steps: 1 }));
  say({ pids: [process.pid, server.pid], settings: settings() });
  for await (const line of asked) say(await measure(`http://${at(ingress)}`, JSON.parse(line)));
}

function say(what) {
  fs.writeSync(1, `${JSON.stringify(what)}\n`);
}

const [dir] = process.argv.slice(1);
if (dir === undefined) {
  const packages = [shim, find.resolve("@restatedev/restate-sdk")].map(versionOf);
  say({ installed: `${packages.join(", ")}, Node.js ${process.versions.node}` });
} else {
  serve(dir).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
