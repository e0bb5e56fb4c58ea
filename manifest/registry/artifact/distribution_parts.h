// A distribution as files, and the artifact made from it.
#pragma once

#include <string>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "manifest/document/manifest.h"
#include "manifest/registry/artifact/describe_set.h"

namespace moepack::registry {

// What is read from a distribution before it is described.
struct DistributionParts {
  manifest::Manifest manifest;
  std::string text, readme;  // of distribution.json and README.md; "" without one
  SmallFiles files;
};
Result<DistributionParts> ReadParts(const SourceTree& tree);

// A manifest with its config, as they are stored.
struct Artifact {
  OciManifest oci;
  std::string config, text;  // of the config and of the manifest, canonical JSON
  BlobRecord blob;           // what names the manifest
};
Artifact MakeArtifact(const manifest::Manifest& manifest, OciManifest oci);

}  // namespace moepack::registry
