// The Rust cores in this page: the plan that `kubectl device plan` makes, from the objects that the page has. A run is a small program that
// reads a question and writes an answer; it has no file, no clock and no network.

import { messageOf } from "./dom.js";

/** @import { DeviceClass } from "./types/api" */
/** @import { Answer, Question, Resource, Selection, Selector, Stored } from "./types/page" */
/** @import { Api } from "./api.js" */
/** @import { Fleet } from "./fleet.js" */

const MODULE = "whatif.wasm";
const ANSWER_BYTES_MAX = 64 << 20;
const [OK, BAD_FILE, NOT_THERE] = [0, 8, 52];

class Exit extends Error {
  /** @param {number} code */
  constructor(code) {
    super(`exit ${code}`);
    this.code = code;
  }
}

export class Engine {
  /** @type {Promise<WebAssembly.Module> | null} */
  module = null;

  /** The answer to a question, both plain objects. @param {Question} question @returns {Promise<Answer>} */
  async ask(question) {
    this.module ??= WebAssembly.compileStreaming(fetch(MODULE));
    let module;
    try {
      module = await this.module;
    } catch (error) {
      this.module = null;
      throw new Error(`The plan cannot be made in this browser: ${messageOf(error)}`);
    }
    return JSON.parse(await runProgram(module, JSON.stringify(question)));
  }

  /**
   * The devices that each of these selectors means, as sets of keys: classes and expressions only the cores can evaluate. Without an `api` the classes
   * are those that are given.
   * @param {{ api?: Api, fleet: Fleet, served: { slices: Resource | null, patches: Resource | null, classes: Resource | null } }} from
   * @param {Selector[]} selectors
   * @param {Stored<DeviceClass>[] | null} [known]
   * @returns {Promise<Selection[]>}
   */
  async select({ api, fleet, served }, selectors, known = null) {
    const classes = known ?? (api && served.classes?.path ? (await api.list(served.classes.path)).items : []);
    const rules = selectors.map((deviceSelector) => ({
      apiVersion: "resource.k8s.io/v1alpha3", kind: "DeviceTaintRule", metadata: { name: "selects" },
      spec: { deviceSelector, taint: { key: "lazaret.dev/selects", effect: "None" } },
    }));
    const answer = await this.ask({ op: "select", rules, objects: [...typed(served.slices, "ResourceSlice", fleet.slices.values()),
      ...typed(served.patches, "ResourceSlicePatch", fleet.patches.values()), ...typed(served.classes, "DeviceClass", classes)] });
    if (answer.error) throw new Error(answer.error);
    return (answer.selected ?? []).map(({ devices, problem }) => Object.assign(new Set(devices), { problem }));
  }
}

/** Lists leave version and kind out of their items. @param {Resource | null | undefined} resource @param {string} kind @param {Iterable<object>} items */
export function typed(resource, kind, items) {
  if (!resource) return [];
  const apiVersion = resource.group ? `${resource.group}/${resource.version}` : resource.version;
  return [...items].map((item) => ({ apiVersion, kind, ...item }));
}

/** Runs a WASI program with this input and gives its output. @param {WebAssembly.Module} module @param {string} input */
export async function runProgram(module, input) {
  const bytes = new TextEncoder().encode(input);
  let read = 0;
  /** @type {WebAssembly.Memory | null} */
  let memory = null;
  /** @type {Uint8Array[]} */
  const output = [];
  let length = 0;
  const buffer = () => {
    if (!memory) throw new Error("the program has no memory");
    return memory.buffer;
  };
  const view = () => new DataView(buffer());
  /** @param {number} at @param {number} number */
  const vectors = (at, number) => Array.from({ length: number }, (_, index) => {
    const [start, size] = [view().getUint32(at + index * 8, true), view().getUint32(at + index * 8 + 4, true)];
    return new Uint8Array(buffer(), start, size);
  });
  /** @type {Record<string, (...words: number[]) => number>} */
  const calls = {
    fd_read(file, at, number, result) {
      if (file !== 0) return BAD_FILE;
      let sum = 0;
      for (const target of vectors(at, number)) {
        const part = bytes.subarray(read, read + target.length);
        target.set(part);
        read += part.length;
        sum += part.length;
      }
      view().setUint32(result, sum, true);
      return OK;
    },
    fd_write(file, at, number, result) {
      let sum = 0;
      for (const source of vectors(at, number)) {
        sum += source.length;
        if (file === 1) { output.push(source.slice()); length += source.length; }
      }
      if (length > ANSWER_BYTES_MAX) throw new Error("the answer is too large");
      view().setUint32(result, sum, true);
      return OK;
    },
    environ_sizes_get(number, size) { view().setUint32(number, 0, true); view().setUint32(size, 0, true); return OK; },
    environ_get: () => OK,
    args_sizes_get(number, size) { view().setUint32(number, 0, true); view().setUint32(size, 0, true); return OK; },
    args_get: () => OK,
    random_get(at, size) { crypto.getRandomValues(new Uint8Array(buffer(), at, size)); return OK; },
    clock_time_get(_id, _precision, result) { view().setBigUint64(result, 0n, true); return OK; },
    proc_exit(code) { throw new Exit(code); },
  };
  /** @type {WebAssembly.Imports & Record<string, WebAssembly.ModuleImports>} */
  const imports = {};
  for (const { module: name, name: call } of WebAssembly.Module.imports(module)) (imports[name] ??= {})[call] = calls[call] ?? (() => NOT_THERE);
  const instance = await WebAssembly.instantiate(module, imports);
  const { memory: own, _start: start } = instance.exports;
  if (!(own instanceof WebAssembly.Memory) || typeof start !== "function") throw new Error("the module is no program");
  memory = own;
  try {
    start();
  } catch (error) {
    if (!(error instanceof Exit) || error.code !== 0) throw new Error(`the plan failed: ${messageOf(error)}`);
  }
  const text = new Uint8Array(length);
  let at = 0;
  for (const part of output) { text.set(part, at); at += part.length; }
  return new TextDecoder().decode(text);
}
