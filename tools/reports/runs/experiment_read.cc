#include "tools/reports/runs/experiment_read.h"

#include <cmath>

#include "libshard/base/text/text.h"
#include "runtime-shim/experiment/document.h"

namespace moepack::cli {
namespace {

// `parent` has an object with "mean" and "error" under `key`; neither figure is absurdly large.
Result<runtime::Estimate> EstimateFromJson(const JsonFields& parent, const char* key) {
  constexpr double kMost = 1e6;
  SHARD_TRY(const Json* value, parent.Object(key));
  const JsonFields fields(*value, Cat(parent.where(), ": ", key));
  runtime::Estimate estimate;
  SHARD_TRY(estimate.mean, fields.Number("mean"));
  SHARD_TRY(estimate.error, fields.Number("error"));
  if (!(std::abs(estimate.mean) <= kMost)) return fields.Wrong("mean", "a number of nats");
  if (!(estimate.error >= 0 && estimate.error <= kMost))
    return fields.Wrong("error", "a standard error");
  return estimate;
}

Status ReadComparison(const JsonFields& row, ExperimentFigures& figures) {
  if (!row.Has("difference")) return Ok();
  SHARD_TRY(const Json* difference, row.Object("difference"));
  const JsonFields fields(*difference, Cat(row.where(), ": difference"));
  SHARD_TRY(figures.from, fields.String("from"));
  SHARD_TRY(figures.change, EstimateFromJson(fields, "kld"));
  return Ok();
}

Result<ExperimentFigures> FiguresFromJson(const JsonFields& row) {
  ExperimentFigures figures;
  SHARD_TRY(figures.row, row.String("row"));
  SHARD_TRY(figures.refitted, row.BoolOr("refitted", false));
  SHARD_TRY(figures.calibrated, row.BoolOr("calibrated", false));
  if (row.Has("node_bytes")) {
    SHARD_TRY(figures.node_bytes, row.Unsigned("node_bytes"));
  }
  SHARD_TRY(const Json* sessions, row.Array("sessions"));
  figures.sessions = sessions->size();
  if (figures.sessions == 0) return figures;
  SHARD_TRY(const Json* choices, row.Object("figures"));
  SHARD_TRY(const Json* capture,
            JsonFields(*choices, Cat(row.where(), ": figures")).Object("capture"));
  const JsonFields fields(*capture, Cat(row.where(), ": figures: capture"));
  SHARD_TRY(figures.kld, EstimateFromJson(fields, "kld"));
  SHARD_TRY(figures.loss, EstimateFromJson(fields, "loss"));
  SHARD_TRY(figures.top1, EstimateFromJson(fields, "top1"));
  SHARD_CHECK(ReadComparison(row, figures));
  return figures;
}

}  // namespace

Result<ExperimentResults> ExperimentFromJson(const std::string& where, const Json& document) {
  const JsonFields fields(document, where);
  SHARD_TRY(const uint64_t version, fields.Unsigned("version"));
  if (version != runtime::kExperimentVersion)
    return Error{Code::kUnsupported, Cat(where, ": version: expected ", runtime::kExperimentVersion,
                                         ", found ", version)};
  ExperimentResults results;
  SHARD_TRY(results.complete, fields.Bool("complete"));
  SHARD_TRY(const Json* rows, fields.Array("rows"));
  for (size_t i = 0; i < rows->size(); ++i) {
    const std::string at = Cat(where, ": rows[", i, "]");
    if (!(*rows)[i].is_object())
      return Error{Code::kCorrupt,
                   Cat(at, ": expected an object, found ", DescribeJson((*rows)[i]))};
    SHARD_TRY(ExperimentFigures figures, FiguresFromJson(JsonFields((*rows)[i], at)));
    if (figures.sessions > 0) results.rows.push_back(std::move(figures));
  }
  return results;
}

}  // namespace moepack::cli
