//! Informers shared by all parts of a program, one for each resource.

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
