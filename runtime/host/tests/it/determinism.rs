//! The settings that make a turn a pure function of what the guest was given. A replay years later relies on every one.

use stepwell_host::{ModuleError, TurnEnd};

use crate::support::{first_turn, host, json};

#[tokio::test]
async fn a_nan_is_the_canonical_one_whatever_it_was_made_from() {
    // A payload goes in by each operand; what comes out shows the bits of the canonical NaN.
    let body = r#"
      (func $canonical (param f64)
        (if (i64.ne (i64.reinterpret_f64 (local.get 0)) (i64.const 0x7ff8000000000000)) (then (unreachable))))
      (func $canonical32 (param f32)
        (if (i32.ne (i32.reinterpret_f32 (local.get 0)) (i32.const 0x7fc00000)) (then (unreachable))))
      (func $run (result i32)
        (local $payload f64)
        (local.set $payload (f64.reinterpret_i64 (i64.const 0xfff4000000000123)))
        (call $canonical (f64.add (local.get $payload) (f64.const 1)))
        (call $canonical (f64.mul (f64.const 1) (local.get $payload)))
        (call $canonical (f64.sqrt (f64.const -1)))
        (call $canonical (f64.div (f64.const 0) (f64.const 0)))
        (call $canonical32 (f32.demote_f64 (local.get $payload)))
        (call $canonical32 (f32.sub (f32.const inf) (f32.const inf)))
        (call $ok-null))
    "#;
    assert_eq!(first_turn(&host(), body).await, TurnEnd::Returned(Ok(json("null"))));
}

#[tokio::test]
async fn relaxed_simd_gives_the_answers_that_every_machine_can_give() {
    let body = r#"
      (func $check (param i32 i32)
        (if (i32.ne (local.get 0) (local.get 1)) (then (unreachable))))
      (func $run (result i32)
        ;; An index beyond the vector gives 0, where some machines would wrap it.
        (call $check (i32.const 0)
          (i8x16.extract_lane_u 0 (i8x16.relaxed_swizzle
            (v128.const i8x16 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9)
            (v128.const i8x16 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0))))
        ;; What is out of range is the nearest value.
        (call $check (i32.const 0x7fffffff)
          (i32x4.extract_lane 0 (i32x4.relaxed_trunc_f32x4_s (v128.const f32x4 1e20 0 0 0))))
        ;; Fused: with two roundings the answer would be 0.
        (call $check (i32.const 1)
          (f64.ne (f64.const 0) (f64x2.extract_lane 0 (f64x2.relaxed_madd
            (v128.const f64x2 0x1.0000000000001p+0 0)
            (v128.const f64x2 0x1.0000000000001p+0 0)
            (v128.const f64x2 -0x1.0000000000002p+0 0)))))
        (call $ok-null))
    "#;
    assert_eq!(first_turn(&host(), body).await, TurnEnd::Returned(Ok(json("null"))));
}

#[test]
fn what_is_not_offered_is_not_compiled() {
    let host = host();
    for feature in [
        "(memory 1 1 shared)",
        "(memory i64 1)",
        "(memory 1 (pagesize 1))",
        "(func (atomic.fence))",
        "(func (result i64 i64) (i64.add128 (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1)))",
        "(type (struct (field i32)))",
    ] {
        let bytes = wat::parse_str(format!("(component (core module {feature}))")).unwrap();
        assert!(matches!(host.compile(&bytes), Err(ModuleError::Invalid(_))), "{feature} was accepted");
    }
}
