// Every writing command, with a fault at every single call: afterwards the target is the old or the new state,
// complete, and a second run succeeds.
#include <gtest/gtest.h>

#include "cmf/compact.h"
#include "cmf/model_state.h"
#include "cmf/sample_file.h"
#include "cmf/sharded_writer.h"
#include "cmf/signature.h"
#include "support/faulty_file_system.h"

namespace cortiq::cmf {
namespace {

struct Command {
  std::string name;
  std::function<void(MemoryFileSystem&)> prepare;  ///< what is on the disk before
  std::function<void(FileSystem&)> run;
  std::string target;  ///< whose state is looked at
};

void add_tensor(FileSystem& files, const std::string& output) {
  Update update(files, "m.cmf", output);
  const SampleTensor tensor = sample_tensor("model.layers.1.new.weight", codec::Dtype::F32, {4, 64}, 12);
  if (update.model().find(tensor.declaration.name)) return;
  Change change;
  change.header = update.header();
  (*change.header)["provenance"]["grown"] = true;
  change.add = {tensor.declaration};
  update.begin(std::move(change));
  update.append(Bytes{std::span<const uint8_t>(tensor.payload)});
  update.finish();
}

void add_a_mask(FileSystem& files, const std::string& output) {
  Update update(files, "m.cmf", output);
  Masks masks = update.model().first().masks();
  if (masks.masks.size() > 1) return;
  masks.masks.push_back(masks.masks[0]);
  masks.masks[1].name = "coding";
  Change change;
  change.masks = write_masks(masks, update.model().header().arch);
  update.begin(std::move(change));
  update.finish();
}

void prepare_sample(MemoryFileSystem& files) { write_sample(files, "m.cmf"); }

std::vector<Command> commands() {
  const auto grown = [](MemoryFileSystem& files) {
    prepare_sample(files);
    add_tensor(files, "");
  };
  const auto sharded = [](MemoryFileSystem& files) {
    prepare_sample(files);
    split(files, "m.cmf", "s.cmf", 8000);
  };
  const auto with_key = [](MemoryFileSystem& files) {
    prepare_sample(files);
    generate_key(files, "key");
  };
  return {
      {"convert", [](MemoryFileSystem&) {}, [](FileSystem& files) { write_sample(files, "m.cmf"); }, "m.cmf"},
      {"convert over an older file",
       [](MemoryFileSystem& files) {
         write_sample(files, "m.cmf", {sample_header(), "", {}}, {});
       },
       [](FileSystem& files) { write_sample(files, "m.cmf"); }, "m.cmf"},
      {"append", prepare_sample, [](FileSystem& files) { add_tensor(files, ""); }, "m.cmf"},
      {"append to another file", prepare_sample, [](FileSystem& files) { add_tensor(files, "out.cmf"); }, "out.cmf"},
      {"mask add", prepare_sample, [](FileSystem& files) { add_a_mask(files, ""); }, "m.cmf"},
      {"compact in place", grown, [](FileSystem& files) { compact(files, "m.cmf", "m.cmf"); }, "m.cmf"},
      {"compact", grown, [](FileSystem& files) { compact(files, "m.cmf", "out.cmf"); }, "out.cmf"},
      {"split", prepare_sample, [](FileSystem& files) { split(files, "m.cmf", "s.cmf", 8000); },
       "s-00001-of-00003.cmf"},
      {"merge", sharded, [](FileSystem& files) { merge(files, "s-00002-of-00003.cmf", "out.cmf"); }, "out.cmf"},
      {"sign", with_key, [](FileSystem& files) { sign(files, "m.cmf", "key"); }, "m.cmf"},
  };
}

// The model and whether its signature holds: what sign() changes.
std::string state_of(FileSystem& files, const std::string& path) {
  std::string out = model_state(files, path);
  if (out != "absent") out += " " + verify_in(files, path).signature;
  return out;
}

void expect_old_or_new(MemoryFileSystem& files, const Command& command, const std::string& before,
                       const std::string& after) {
  const std::string now = state_of(files, command.target);
  EXPECT_TRUE(now == before || now == after) << now;
  EXPECT_NO_THROW(command.run(files));
  EXPECT_EQ(state_of(files, command.target), after);
}

TEST(Crash, power_loss_at_every_call_leaves_old_or_new) {
  for (const Command& command : commands()) {
    SCOPED_TRACE(command.name);
    MemoryFileSystem start;
    command.prepare(start);
    const std::string before = state_of(start, command.target);
    FaultyFileSystem whole(start);
    command.run(whole);
    const std::string after = state_of(whole, command.target);
    const size_t calls = whole.calls();
    ASSERT_GT(calls, 3u);
    for (size_t call = 1; call <= calls; ++call) {
      FaultyFileSystem files(start);
      files.fail_at(call, FaultyFileSystem::Fault::PowerLoss);
      try {
        command.run(files);
      } catch (const Error&) {
      }
      if (!files.failed()) break;  // the calls that checking the state made are not the command's
      for (const auto survival : FaultyFileSystem::kSurvivals) {
        for (const bool names : {false, true}) {
          SCOPED_TRACE(fmt::format("call {}, survival {}, names {}", call, static_cast<int>(survival), names));
          MemoryFileSystem disk = files.crashed(survival, names);
          expect_old_or_new(disk, command, before, after);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(Crash, full_disk_and_short_writes_leave_old_or_new_and_nothing_else) {
  for (const Command& command : commands()) {
    SCOPED_TRACE(command.name);
    MemoryFileSystem start;
    command.prepare(start);
    const std::string before = state_of(start, command.target);
    FaultyFileSystem whole(start);
    command.run(whole);
    const size_t calls = whole.calls();
    const std::string after = state_of(whole, command.target);
    for (const auto fault : {FaultyFileSystem::Fault::NoSpace, FaultyFileSystem::Fault::ShortWrite}) {
      for (size_t call = 1; call <= calls; ++call) {
        SCOPED_TRACE(fmt::format("call {}, fault {}", call, static_cast<int>(fault)));
        FaultyFileSystem files(start);
        files.fail_at(call, fault);
        bool threw = false;
        try {
          command.run(files);
        } catch (const Error& error) {
          threw = true;
          EXPECT_EQ(error.kind(), ErrorKind::Io) << error.what();
        }
        if (!files.failed()) break;
        for (const std::string& path : files.paths()) {
          EXPECT_FALSE(path.ends_with(".tmp") && threw && fault == FaultyFileSystem::Fault::ShortWrite) << path;
        }
        files.fail_at(0, FaultyFileSystem::Fault::None);
        expect_old_or_new(files, command, before, after);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace cortiq::cmf
