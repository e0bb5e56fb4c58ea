#include "tools/commands/refit_run.h"

#include "libshard/refit/refit_store.h"
#include "runtime-shim/model/bos_token.h"
#include "runtime-shim/refit/refit.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/reports/refit_report.h"

namespace moepack::cli {

Result<RefitRecord> RunRefit(const RefitRun& run) {
  const RefitArguments& arguments = run.arguments;
  SHARD_TRY(const std::vector<TokenSession> texts,
            ReadSessions(arguments.texts, run.loaded.model->vocabulary(),
                         TokenizeAs(run.loaded.weights)));
  RefitRecord record;
  runtime::RecordOptions(arguments.options, record);
  record.model = run.version;
  record.plan = RefitPlanDigest(run.plan);
  record.calibration = CalibrationOf(texts);
  SHARD_TRY(RefitStoreWriter store, RefitStoreWriter::Open(run.store, record));
  SHARD_TRY(const std::vector<runtime::CalibrationSession> sessions,
            WeighSessions(arguments, run.plan, texts));
  Progress progress("refitting", ProgressUnit::kTokens);
  runtime::RefitEvents events;
  events.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total); };
  events.refitted = [&](const runtime::LayerOutcome& outcome, bool again) {
    progress.Clear();
    PrintMessage(RefitLine(outcome, again));
  };
  const runtime::RefitInput input = {*run.loaded.model, run.plan, sessions,
                                     runtime::BosToken(run.loaded.weights->metadata)};
  SHARD_CHECK(runtime::RefitModel(input, arguments.options, events, store, run.store));
  progress.Clear();
  return store.record();
}

}  // namespace moepack::cli
