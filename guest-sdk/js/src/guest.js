// What the component exports: the contract's `workflows` interface.

import { withOwnThen } from "./primordials.js";
import { describe } from "./registry.js";
import { run } from "./run.js";

// The engine asks what `run` returns for its `then`, whatever has become of that.
export const guest = { describe, run: (name, input) => withOwnThen(run(name, input)) };
