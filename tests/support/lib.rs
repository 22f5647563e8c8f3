//! What the black-box tests share: the built programs, a directory to run them in, servers to run them against.
//!
//! Nothing here links Stepwell: it is driven as its users drive it, as a program. What goes wrong here panics, with what was seen.

mod api;
mod binary;
mod module;
mod parallel;
mod process;
mod project;
mod rust_guest;
mod server;
mod shop;

pub use api::{Answer, Api, Serving};
pub use binary::Stepwell;
pub use module::Module;
pub use parallel::each_in_parallel;
pub use process::{Finished, Running};
pub use project::Project;
pub use rust_guest::core_module as rust_core_module;
pub use server::{Reply, Request, Server};
pub use shop::Shop;
