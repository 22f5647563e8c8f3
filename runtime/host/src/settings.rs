//! How wasmtime is set up: the one place that decides what a module computes and what it may use.
//!
//! Two engines may exist, alike but for where instances are put (the pool, or memory taken on demand), so a module compiled for
//! one runs on the other and computes the same. It does not decide what a guest may call.

use std::path::PathBuf;
use std::time::Duration;

use stepwell_core::limits;
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, RegallocAlgorithm,
    WasmBacktraceDetails,
};

/// What an operator may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSettings {
    /// Where compiled modules are kept. `None` compiles at every start.
    pub cache_dir: Option<PathBuf>,
    /// Instances that fit the pool; those beyond it are made on demand. 0 makes no pool.
    pub pool_instances: u32,
    /// Memory of an instance, all of its linear memories together, in bytes.
    pub instance_memory_bytes: usize,
    /// Table elements of an instance, all of its tables together.
    pub instance_table_elements: usize,
    /// Memory of all live instances together, in bytes: beyond it no further one comes to life.
    pub total_memory_bytes: usize,
    /// Size of a module, in bytes.
    pub module_bytes: usize,
    /// How long a module waits for others that are being compiled.
    pub compile_limit: Duration,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            cache_dir: None,
            pool_instances: 1_000,
            instance_memory_bytes: limits::MAX_INSTANCE_MEMORY_BYTES,
            instance_table_elements: limits::MAX_INSTANCE_TABLE_ELEMENTS,
            total_memory_bytes: limits::MAX_TOTAL_MEMORY_BYTES,
            module_bytes: limits::MAX_MODULE_BYTES,
            compile_limit: Duration::from_millis(limits::MAX_COMPILE_MS),
        }
    }
}

/// Native stack of a guest. Recursion beyond it is a stack overflow.
const WASM_STACK_BYTES: usize = 1 << 20;
/// Stack of a fiber: the guest's and, above it, room for our own functions that it calls.
const FIBER_STACK_BYTES: usize = 2 << 20;
/// Address space of a linear memory, so that accesses need no bounds check and memories never move.
const MEMORY_RESERVATION_BYTES: u64 = 4 << 30;
/// What stays resident in a pool's slot between two instances, in place of being given back to the system and faulted in again.
const KEPT_RESIDENT_BYTES: usize = 64 << 10;

/// A QuickJS component has 3 memories and over 10 core instances, a Python one several dozen core instances. What needs more
/// than this is instantiated on demand.
const CORE_INSTANCES_PER_COMPONENT: u32 = 60;
const MEMORIES_PER_COMPONENT: u32 = 4;
const TABLES_PER_COMPONENT: u32 = 8;
/// A guest that waits in several places has a stack for each.
const STACKS_PER_COMPONENT: u32 = 4;

/// The engine whose instances are made on demand.
pub(crate) fn on_demand_engine() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// One that only compiles, for those two, on one thread. How many threads compile makes no difference to what comes of it.
pub(crate) fn aside_engine() -> wasmtime::Result<Engine> {
    let mut config = config();
    config.parallel_compilation(false);
    Engine::new(&config)
}

/// The engine whose instances come from the pool.
pub(crate) fn pooled_engine(settings: &HostSettings) -> wasmtime::Result<Engine> {
    let mut config = config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(settings)));
    Engine::new(&config)
}

fn config() -> Config {
    let mut config = Config::new();
    // The same values for the same inputs, on every machine.
    config.cranelift_nan_canonicalization(true);
    config.wasm_simd(true);
    config.wasm_relaxed_simd(true);
    config.relaxed_simd_deterministic(true);
    config.shared_memory(false);

    // What a module may be made of. Runs stay on their module for years, so nothing is offered that may have to be withdrawn.
    config.wasm_component_model(true);
    config.wasm_component_model_async(true);
    config.wasm_bulk_memory(true);
    config.wasm_multi_value(true);
    config.wasm_multi_memory(true);
    config.wasm_tail_call(true);
    config.wasm_extended_const(true);
    config.wasm_memory64(false);
    config.wasm_custom_page_sizes(false);
    config.wasm_wide_arithmetic(false);
    // Compiled in only since the build's wizer asks for them; off for guests, whatever else is in the binary.
    config.wasm_threads(false);
    config.wasm_gc(false);
    config.wasm_function_references(false);
    config.wasm_exceptions(false);

    config.epoch_interruption(true);
    config.consume_fuel(false);
    config.max_wasm_stack(WASM_STACK_BYTES);
    config.async_stack_size(FIBER_STACK_BYTES);

    config.memory_reservation(MEMORY_RESERVATION_BYTES);
    config.memory_may_move(false);
    // A module's initial memory is copied when an instance is made. Sharing it until it is written to costs a page fault for each of
    // some hundred pages, and as the process has other threads each of those interrupts the other cores: with all of them at work
    // an instance of a TypeScript module took over twice as long.
    config.memory_init_cow(false);

    config.cranelift_opt_level(OptLevel::Speed);
    config.cranelift_regalloc_algorithm(RegallocAlgorithm::Backtracking);
    config.parallel_compilation(true);
    // Functions are named in a trap's text. Lines would need the environment and the module's debug sections.
    config.wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config
}

fn pool(settings: &HostSettings) -> PoolingAllocationConfig {
    let n = settings.pool_instances;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(n)
        .max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT)
        .total_core_instances(n.saturating_mul(CORE_INSTANCES_PER_COMPONENT))
        .max_memories_per_component(MEMORIES_PER_COMPONENT)
        .max_memories_per_module(MEMORIES_PER_COMPONENT)
        .total_memories(n.saturating_mul(MEMORIES_PER_COMPONENT))
        .max_tables_per_component(TABLES_PER_COMPONENT)
        .max_tables_per_module(TABLES_PER_COMPONENT)
        .total_tables(n.saturating_mul(TABLES_PER_COMPONENT))
        .total_stacks(n.saturating_mul(STACKS_PER_COMPONENT));
    // A slot holds a little more than an instance may have, so that it is always our limit that is met, in the pool as on demand.
    pool.max_memory_size(settings.instance_memory_bytes.next_multiple_of(64 << 10) + (64 << 10))
        .table_elements(settings.instance_table_elements + 1);
    pool.linear_memory_keep_resident(KEPT_RESIDENT_BYTES)
        .table_keep_resident(KEPT_RESIDENT_BYTES)
        .async_stack_keep_resident(KEPT_RESIDENT_BYTES)
        .decommit_batch_size(1);
    pool
}
