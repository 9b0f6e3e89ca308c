//! Takes the place of the module `http2` without the feature `http2`: no connection speaks it.

use alloc::sync::Arc;
use core::error::Error;
use core::future::{Ready, ready};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};

use crate::address::Address;
use crate::error::{HyperError, NoResponse};
use crate::stream::Stream;
use crate::tls::Version;

/// There are no settings to change.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Http2Settings {}

pub(crate) enum Http2 {}

impl Http2 {
    pub(crate) fn open(
        server: &Arc<Address>,
        _stream: Stream,
        _settings: Http2Settings,
        _version: Version,
    ) -> Ready<Result<Arc<Self>, HyperError>> {
        ready(Err(HyperError::not_http2(server)))
    }

    pub(crate) fn is_open(&self) -> bool {
        match *self {}
    }

    pub(crate) fn version(&self) -> Version {
        match *self {}
    }

    pub(crate) fn idle(&self) -> Option<Duration> {
        match *self {}
    }

    pub(crate) fn reserve(self: &Arc<Self>) -> Option<StreamSlot> {
        match **self {}
    }
}

pub(crate) enum StreamSlot {}

impl StreamSlot {
    pub(crate) fn request(
        self,
        _request: Request<Bytes>,
    ) -> Ready<Result<(StatusCode, HeaderMap, Http2Body), NoResponse>> {
        match self {}
    }
}

pub(crate) enum Http2Body {}

impl Http2Body {
    pub(crate) fn poll_data(
        &mut self,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, HyperError>>> {
        match *self {}
    }
}

pub(crate) fn io_error<'a>(_error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    None
}

pub(crate) fn is_remote(_error: &(dyn Error + 'static)) -> bool {
    false
}

pub(crate) fn may_be_of_head(_error: &(dyn Error + 'static)) -> bool {
    false
}
