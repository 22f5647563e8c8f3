//! What the server takes away by itself: answers that hold their keys no longer, and, where an operator says so, runs that have ended.

use std::time::Duration;

use stepwell_core::policy::idempotency::ANSWER_KEPT_MS;
use stepwell_core::policy::retention::Retention;

use super::app::{App, now_ms};

/// How often old answers are taken away.
const FORGET_EVERY: Duration = Duration::from_secs(600);
/// How often runs are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Takes old answers away, from time to time and without end.
pub(super) async fn forget_answers(app: App) {
    loop {
        forget_old_answers(&app).await;
        tokio::time::sleep(FORGET_EVERY).await;
    }
}

async fn forget_old_answers(app: &App) {
    if let Err(error) = app.engine.forget_answers(now_ms().saturating_sub(ANSWER_KEPT_MS)).await {
        tracing::warn!(%error, "old answers could not be taken away");
    }
}

/// Takes runs away that have been kept for long enough, from time to time and without end.
pub(super) async fn forget_runs(app: App, retention: Retention) {
    while !retention.is_off() {
        match app.engine.forget_ended(&retention).await {
            Ok(0) => {}
            Ok(runs) => {
                tracing::info!(runs, "runs that have been kept for long enough were taken away");
                // The keys that they held are free.
                forget_old_answers(&app).await;
            }
            Err(error) => tracing::warn!(%error, "runs could not be taken away"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
