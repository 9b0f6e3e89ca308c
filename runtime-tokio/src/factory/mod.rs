//! One informer for each resource, shared by everything in a program that asks for it.

mod driver;
mod informers;
mod request;
mod table;
pub(crate) mod transport;

pub use {
    driver::FactoryDriver,
    informers::{Factory, FactoryBuilder},
    request::Request,
};
