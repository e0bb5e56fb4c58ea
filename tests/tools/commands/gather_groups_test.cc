// What tasks encode for groups, and what the first task takes of it.
#include <gmock/gmock.h>

#include <functional>
#include <stdexcept>

#include "fixtures/temp_dir.h"
#include "tests/libshard/refit/sample_store.h"
#include "tools/commands/calibrate_groups.h"
#include "tools/options/source.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kModel = MOEPACK_SOURCE_DIR "/fixtures/tiny-moe";
constexpr const char* kUp = "blk.0.ffn_up_exps.weight";
constexpr size_t kBytesOfExpert = 256 * 256 / 32 * 34;  // in q8_0

template <class T>
T Get(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

// Two groups, each of a task; of their experts, those of group 1 in layer 0 were refitted.
class GatheredGroups : public testing::Test {
 protected:
  GatheredGroups() {
    const MoeModel model = Get(MoeModel::Open(fs::path(kModel)));
    plan_ = Get(MakePlan(model, {.groups = 2}));
    StoreOptions options;
    options.accept = [](uint32_t layer, uint32_t group) { return layer == 0 && group == 1; };
    WriteStore(dir_ / "refit", model, plan_, options);
    refit_.emplace(Get(RefitStore::Open(dir_ / "refit")));
    const runtime::NodeOptions options_of_model = OptionsToCalibrate({}, 1, "cpu", 0);
    model_ = Get(LoadForCalibration(Get(OpenSource(std::string(kModel))), options_of_model,
                                    Get(OpenExecutor(options_of_model))));
    record_.model = model.Version("");
    record_.types = TypesDigest(types_);
    record_.layer_count = model_.loaded.model->spec().layers;
    record_.groups = moepack::CalibratedGroups{RefitVersion(refit_->record()), {}};
    input_.emplace(runtime::CalibrateInput{*model_.loaded.model, *model_.watch, types_, {}, {}});
    groups_.emplace(RefittedGroups{plan_, *refit_});
  }

  // Nothing that it encodes needs text or the whole model, which fail.
  GroupsToEncode Work() const {
    return {"tiny-moe", *groups_, model_.loaded, *input_, options_, [](uint32_t) {
              return Result<EncodedTensors>(Error{Code::kCorrupt, "the whole model was read"});
            }};
  }
  std::unique_ptr<SharedExperts> Task(uint32_t task) const {
    return Get(SharedExperts::Open(Store(), {task, 2}, record_, types_,
                                   [](const std::string& what, double) -> Status {
                                     return Error{Code::kUnavailable, "no " + what};
                                   }));
  }
  std::string Store() const { return (dir_ / "store").string(); }
  CalibratedStoreWriter Whole() const { return Get(CalibratedStoreWriter::Open(Store(), record_)); }

  CalibratedOutcome Outcome() const {
    CalibratedOutcome outcome;
    for (const uint32_t id : refit_->record().Find(0, 1)->expert_ids)
      outcome.experts.push_back({id, {}});
    return outcome;
  }
  // Writes layers of group 1 as task 1, the first with one tensor.
  void WriteTask(const CalibratedOutcome& outcome, const std::string& tensor, size_t bytes,
                 const char* type = "q8_0") const {
    const auto task = Task(1);
    EncodedTensors tensors;
    tensors[tensor].assign(bytes, std::byte{1});
    const std::string& refit = record_.groups->refit;
    Get(task->own().AddToGroup(refit, 1, outcome, tensors, {{tensor, quant::FindFormat(type)}}));
    for (uint32_t layer = 1; layer < record_.layer_count; ++layer) {
      CalibratedOutcome none;
      none.layer = layer;
      Get(task->own().AddToGroup(refit, 1, none, {}, {}));
    }
  }
  Status Gather(CalibratedStoreWriter& whole) const {
    const auto task = Task(0);
    const std::vector<uint32_t> twins = Get(FirstWithSameNode(*groups_));
    const Status encoded = EncodeGroupsOfTask(Work(), twins, whole.record(), *task);
    if (!encoded) return encoded;
    return GatherGroups(Work(), twins, *task, whole);
  }

  fixtures::TempDir dir_;
  runtime::TensorTypes types_ = {{kUp, quant::FindFormat("q8_0")}};
  runtime::CalibrateOptions options_;
  CalibratedRecord record_;
  Plan plan_;
  std::optional<RefitStore> refit_;
  CalibrateModel model_;
  std::optional<runtime::CalibrateInput> input_;
  std::optional<RefittedGroups> groups_;
};

TEST_F(GatheredGroups, WithoutRefittedExpertsNeedNoRun) {
  WriteTask(Outcome(), kUp, 8 * kBytesOfExpert);
  CalibratedStoreWriter whole = Whole();
  const Status gathered = Gather(whole);
  ASSERT_TRUE(gathered) << gathered.error().message;
  ASSERT_EQ(whole.record().groups->layers.size(), 2u);
  for (const CalibratedOutcome& layer : whole.record().groups->layers[0]) {
    EXPECT_TRUE(layer.experts.empty());
    EXPECT_TRUE(layer.tensors.empty());
  }
  ASSERT_EQ(whole.record().groups->layers[1].size(), record_.layer_count);
  EXPECT_EQ(whole.record().FindInGroup(1, 0)->tensors.front().bytes, 8 * kBytesOfExpert);
}

TEST_F(GatheredGroups, ThatTheWholeStoreHasAreNotEncodedAgain) {
  WriteTask(Outcome(), kUp, 8 * kBytesOfExpert);
  CalibratedStoreWriter whole = Whole();
  ASSERT_TRUE(Gather(whole));
  fs::remove_all(fs::path(Store() + ".tasks"));
  const auto task = Task(0);
  ASSERT_TRUE(EncodeGroupsOfTask(Work(), {0, 1}, whole.record(), *task));
  EXPECT_TRUE(task->own().record().groups->layers.empty());
  // A twin of a group that is missing is encoded, so that it can be copied.
  CalibratedRecord half = whole.record();
  half.groups->layers.pop_back();
  ASSERT_TRUE(EncodeGroupsOfTask(Work(), {0, 0}, half, *task));
  EXPECT_EQ(task->own().record().groups->layers.size(), 2u);
}

TEST_F(GatheredGroups, AreRefusedIfTheyAreWrong) {
  CalibratedOutcome others = Outcome();
  for (CalibratedExpert& expert : others.experts) --expert.id;
  const size_t bytes = 8 * kBytesOfExpert;
  const std::tuple<CalibratedOutcome, std::string, size_t, const char*, const char*> cases[] = {
      {Outcome(), "blk.0.ffn_other.weight", bytes, "q8_0",
       "tensor \"blk.0.ffn_other.weight\": expected one that is calibrated, found another"},
      {Outcome(), kUp, 8 * 256 * 256 / 256 * 144, "q4_K", "expected q8_0, found q4_K"},
      {Outcome(), kUp, bytes / 2, "q8_0", "expected 557056 bytes, found 278528"},
      {others, kUp, bytes, "q8_0", "layer 0: experts: expected those of the refit, \"8-15\""},
  };
  for (const auto& [outcome, tensor, size, type, message] : cases) {
    WriteTask(outcome, tensor, size, type);
    CalibratedStoreWriter whole = Whole();
    const Status gathered = Gather(whole);
    ASSERT_FALSE(gathered) << message;
    EXPECT_EQ(gathered.error().code, Code::kMismatch);
    EXPECT_THAT(gathered.error().message, HasSubstr("store.tasks/00001-of-00002: group 1"));
    EXPECT_THAT(gathered.error().message, HasSubstr(message));
    EXPECT_EQ(whole.record().FindInGroup(1, 0), nullptr);
    fs::remove_all(fs::path(Store()));
    fs::remove_all(fs::path(Store() + ".tasks"));
  }
}

}  // namespace
}  // namespace moepack::cli
