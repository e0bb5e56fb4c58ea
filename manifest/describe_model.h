// The part of a manifest that is known before any byte is written.
#pragma once

#include <string>

#include "libshard/model.h"
#include "libshard/plan.h"
#include "manifest/manifest.h"

namespace manifest {

// Model facts, versions and plan; no bundles, no assets.
Manifest DescribeModel(const shard::MoeModel& model, const shard::Plan& plan,
                       const std::string& model_id, const std::string& revision);

}  // namespace manifest
