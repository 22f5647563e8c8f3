//! Guests that mean no good, or were badly written, against the whole of Stepwell: each run ends by its own code, what it wrote
//! can be read, and a run that means well, in the same process at the same time, is undisturbed.

#[path = "hostile/guest.rs"]
pub(crate) mod guest;
mod house;
mod limits;
mod pointers;
mod storage;
mod verdict;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use guest::{Budget, Guest, guests};
use house::House;

/// Guests that run at a time, each beside a neighbour.
const AT_A_TIME: usize = 4;

/// Runs each guest beside a neighbour, and compares what becomes of it with what its file says.
async fn all_come_to_their_ends(guests: Vec<Guest>) {
    let short = Arc::new(House::new(Budget::Short).await);
    let default = Arc::new(House::new(Budget::Default).await);
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut all = JoinSet::new();
    for guest in guests {
        let house = if guest.budget() == Budget::Short { short.clone() } else { default.clone() };
        let places = places.clone();
        all.spawn(async move {
            let _place = places.acquire().await.expect("nobody closes this");
            let (result, ()) = tokio::join!(comes_to_its_end(&house, &guest), house.neighbour());
            result
        });
    }
    let mut failed = 0;
    while let Some(ended) = all.join_next().await {
        failed += usize::from(ended.is_err());
    }
    assert_eq!(failed, 0, "guests came to another end than their files say; each is named above");
    // Whatever they did, the house stands.
    short.neighbour().await;
    default.neighbour().await;
}

async fn comes_to_its_end(house: &House, guest: &Guest) {
    let component = match &guest.component {
        Ok(component) => component.clone(),
        Err(refusal) => return verdict::check_refusal(guest, refusal),
    };
    match house.engine.add_module(component).await {
        Err(refusal) => verdict::check_refusal(guest, &refusal.to_string()),
        Ok(module) if module.workflows.is_empty() => verdict::check_refusal(guest, "the module has no workflow"),
        Ok(module) => verdict::check(house, guest, &house.run(&module.digest).await),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_in_workflow_code_and_in_a_body() {
    all_come_to_their_ends(guests("both")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_does() {
    all_come_to_their_ends(guests("runs")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_module_is() {
    all_come_to_their_ends(guests("modules")).await;
}

/// On one thread, so that it is the run's own giving way that is seen.
#[tokio::test]
async fn a_run_of_many_short_turns_lets_others_run_between_them() {
    let house = House::new(Budget::Default).await;
    let busy = guests("runs").into_iter().find(|guest| guest.name == "steps-in-a-row").expect("there is such a guest");
    let module = house.engine.add_module(busy.component.expect("it is a component")).await.expect("it is a module");
    let run = house.begin(&module.digest).await;
    house.neighbour().await;
    let row = house.engine.run(&run.id).expect("it can be read").expect("it is there");
    assert!(!row.status.is_finished(), "the neighbour was to wait for none of the ten thousand steps");
}
