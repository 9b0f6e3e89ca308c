//! The documents' programs as doctests: `cargo test -p informer-docs`.

macro_rules! documents {
    ($($name:ident $path:literal)*) => {$(
        #[cfg(doctest)]
        #[doc = include_str!($path)]
        pub mod $name {}
    )*};
}

documents! {
    readme "../README.md"
    getting_started "GETTING-STARTED.md"
    memory "MEMORY.md"
    handlers "HANDLERS.md"
    first_controller "FIRST-CONTROLLER.md"
    controllers "CONTROLLERS.md"
    mock "MOCK.md"
    test_your_controller "TEST-YOUR-CONTROLLER.md"
    health "HEALTH.md"
    audit "AUDIT.md"
    journal "JOURNAL.md"
    devices "DEVICES.md"
    transports "TRANSPORTS.md"
    from_client_go "FROM-CLIENT-GO.md"
    from_kube_rs "FROM-KUBE-RS.md"
    run_loop "RUN-LOOP.md"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn pages(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        let mut pages: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
        pages
    }

    /// The page has the program and the manifest that are tested on a control plane.
    #[test]
    fn the_first_controller_is_the_example() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(docs.join("FIRST-CONTROLLER.md")).unwrap();
        let block = |fence: &str| {
            page.split(fence)
                .nth(1)
                .unwrap()
                .split("```")
                .next()
                .unwrap()
        };
        let read = |path| fs::read_to_string(docs.join("../examples").join(path)).unwrap();
        let program = read("kube/sites.rs");
        let begin = program.find("use ").unwrap();
        assert_eq!(block("```rust,no_run\n"), &program[begin..]);
        assert_eq!(block("```yaml\n"), read("deploy/sites.yaml"));
    }

    /// A link in brackets that does not lead out of the repository, without its anchor.
    fn links(text: &str) -> impl Iterator<Item = &str> {
        // Programs are between fences.
        let prose = text.split("```").step_by(2);
        let links = prose.flat_map(|prose| prose.split("](").skip(1));
        let links = links.filter_map(|link| link.split([')', '#']).next());
        links.filter(|link| !link.is_empty() && !link.starts_with("http"))
    }

    #[test]
    fn every_link_leads_somewhere_and_every_document_is_in_the_book() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR"));
        let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
        let mut problems = Vec::new();
        for folder in ["", "generated", ".."] {
            for page in pages(&docs.join(folder)) {
                let text = fs::read_to_string(&page).unwrap();
                for link in links(&text) {
                    if !page.with_file_name(link).exists() {
                        problems.push(format!("{}: {link}", page.display()));
                    }
                }
                let name = page.file_name().unwrap_or_default().to_string_lossy();
                if folder != ".." && name != "SUMMARY.md" && !summary.contains(&*name) {
                    problems.push(format!("{name} is not in SUMMARY.md"));
                }
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
