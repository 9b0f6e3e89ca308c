//! The parts of a resource that an informer lists and watches, each as a source.

use informer_core::{OwnedResource, Resource, resource::Shard};

use crate::health::source::excluding;

/// Returns the parts that a function names, by their namespaces.
pub(crate) fn parts_of(
    resource: &OwnedResource,
    parts: impl FnOnce(Resource<'_>) -> Vec<Resource<'_>>,
) -> Vec<OwnedResource> {
    let mut whole = resource.as_ref().namespace("");
    (whole.label_selector, whole.field_selector) = (None, None);
    let mut parts: Vec<OwnedResource> = parts(whole).into_iter().map(Into::into).collect();
    assert!(!parts.is_empty(), "name at least one part");
    let namespace = |part: &OwnedResource| part.as_ref().namespace.map(str::to_owned);
    parts.sort_by_key(namespace);
    let is_same = |pair: &[OwnedResource]| namespace(&pair[0]) == namespace(&pair[1]);
    assert!(!parts.windows(2).any(is_same), "name each namespace once");
    parts
}

/// Returns the sources: each part or namespace, in each shard.
pub(super) fn sources(
    resource: &OwnedResource,
    namespaces: &[String],
    parts: &[OwnedResource],
    shards: &[Shard],
) -> Vec<OwnedResource> {
    if !parts.is_empty() {
        let others = except(parts);
        let sources = parts.iter();
        return sources
            .flat_map(|part| of_part(resource.as_ref(), part.as_ref(), &others, shards))
            .collect();
    }
    let whole = resource.as_ref();
    if namespaces.is_empty() {
        return in_shards(whole, shards);
    }
    let sources = namespaces
        .iter()
        .map(|namespace| whole.namespace(namespace));
    sources
        .flat_map(|source| in_shards(source, shards))
        .collect()
}

/// Returns the field selector that leaves out the namespaces of parts.
fn except(parts: &[OwnedResource]) -> String {
    let named = parts.iter().filter_map(|part| part.as_ref().namespace);
    let named = named.filter(|namespace| !namespace.is_empty());
    excluding(&named.map(str::to_owned).collect::<Vec<_>>())
}

/// Returns the sources of a part, with the selectors of the whole. A part without a namespace leaves out the `others`.
fn of_part(
    whole: Resource<'_>,
    part: Resource<'_>,
    others: &str,
    shards: &[Shard],
) -> Vec<OwnedResource> {
    let joined = |selectors: &[Option<&str>]| {
        let selectors: Vec<&str> = selectors.iter().flatten().copied().collect();
        selectors.join(",")
    };
    let is_rest = part.namespace.unwrap_or_default().is_empty() && !others.is_empty();
    let labels = joined(&[whole.label_selector, part.label_selector]);
    let others = is_rest.then_some(others);
    let fields = joined(&[whole.field_selector, part.field_selector, others]);
    let mut source: Resource<'_> = part;
    source.label_selector = (!labels.is_empty()).then_some(&*labels);
    source.field_selector = (!fields.is_empty()).then_some(&*fields);
    in_shards(source, shards)
}

fn in_shards(source: Resource<'_>, shards: &[Shard]) -> Vec<OwnedResource> {
    if shards.is_empty() {
        return vec![source.into()];
    }
    let shards = shards.iter();
    shards.map(|shard| source.shard(*shard).into()).collect()
}
