//! How many requests a token may make: a bucket each, filled steadily, emptied by requests. In memory: it begins anew with the process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A token may save up what it may do in so many seconds.
const BURST_SECONDS: f64 = 2.0;
/// Beyond so many buckets, those that are full again are forgotten.
const MAX_BUCKETS: usize = 10_000;

pub(crate) struct Limiter {
    per_second: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

struct Bucket {
    left: f64,
    at: Instant,
}

impl Limiter {
    /// With 0 it lets everything pass.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second: per_second.into(), buckets: Mutex::default() }
    }

    /// Takes one request off a token's bucket.
    ///
    /// # Errors
    /// How long to wait until there is room for one.
    pub(crate) fn take(&self, token: &str, now: Instant) -> Result<(), Duration> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        let most = (self.per_second * BURST_SECONDS).max(1.0);
        let filled = |bucket: &Bucket| {
            let since = now.saturating_duration_since(bucket.at).as_secs_f64();
            (bucket.left + since * self.per_second).min(most)
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            buckets.retain(|_, bucket| filled(bucket) < most);
        }
        let bucket = buckets.entry(token.to_owned()).or_insert(Bucket { left: most, at: now });
        let left = filled(bucket);
        if left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - left) / self.per_second));
        }
        *bucket = Bucket { left: left - 1.0, at: now };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_emptied_and_fills_again() {
        let limiter = Limiter::new(10);
        let began = Instant::now();
        assert_eq!((0..25).filter(|_| limiter.take("a", began).is_ok()).count(), 20);
        assert_eq!(limiter.take("a", began), Err(Duration::from_millis(100)));
        assert_eq!(limiter.take("b", began), Ok(()), "another token's bucket is its own");
        let later = began + Duration::from_secs(1);
        assert_eq!((0..25).filter(|_| limiter.take("a", later).is_ok()).count(), 10);
        let much_later = began + Duration::from_secs(3_600);
        assert_eq!((0..25).filter(|_| limiter.take("a", much_later).is_ok()).count(), 20);
        assert!((0..10_000).all(|_| Limiter::new(0).take("a", began).is_ok()));
    }
}
