//! Informers shared by all parts of a program, one for each resource.

mod driver;
mod informers;
mod request;
mod table;

pub use {
    driver::FactoryDriver,
    informers::{Factory, FactoryBuilder},
    request::Request,
};
