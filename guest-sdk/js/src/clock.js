// Time and randomness of the run: recorded in workflow code, real in a step's body. The host knows whose turn it is.

import { Math } from "./primordials.js";
import * as host from "./host.js";

export function now() {
  return host.nowMs();
}

/// Uniform in [0, 1), 53 bits.
export function random() {
  // A number near 2^64 may have been rounded up to it on its way here.
  const bits = Math.min(Math.floor(host.randomU64("Math.random") / 2048), 2 ** 53 - 1);
  return bits / 2 ** 53;
}

/// A random whole number of 32 bits.
export function random32() {
  return Math.min(Math.floor(host.randomU64("randomness") / 2 ** 32), 0xffff_ffff);
}
