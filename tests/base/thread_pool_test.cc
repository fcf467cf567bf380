#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cortiq {
namespace {

TEST(ThreadPool, every_index_runs_exactly_once_in_many_loops) {
  for (const size_t threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (size_t loop = 0; loop < 500; ++loop) {
      const size_t count = loop % 37;
      std::vector<int> seen(count);  // without atomics: an index belongs to one thread, and run() orders all before us
      pool.run(count, [&](size_t i) { ++seen[i]; });
      ASSERT_EQ(std::accumulate(seen.begin(), seen.end(), 0), static_cast<int>(count));
    }
  }
}

TEST(ThreadPool, exceptions_reach_the_caller_and_leave_the_pool_usable) {
  ThreadPool pool(3);
  for (size_t loop = 0; loop < 300; ++loop) {
    std::atomic<size_t> ran{0};
    try {
      pool.run(1000, [&](size_t i) {
        ++ran;
        if (i == 17) throw std::runtime_error("index 17");
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "index 17");
    }
    EXPECT_GE(ran, 1u);
    std::atomic<size_t> again{0};
    pool.run(100, [&](size_t) { ++again; });
    EXPECT_EQ(again, 100u);
  }
}

TEST(ThreadPool, when_all_bodies_throw_one_exception_arrives) {
  ThreadPool pool(4);
  EXPECT_THROW(pool.run(64, [](size_t i) { throw std::out_of_range(std::to_string(i)); }), std::out_of_range);
}

TEST(ThreadPool, callers_from_several_threads_take_turns) {
  ThreadPool pool(2);
  std::atomic<size_t> sum{0};
  std::vector<std::thread> callers;
  for (size_t c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (size_t loop = 0; loop < 200; ++loop) {
        size_t own[10] = {};
        pool.run(10, [&](size_t i) { own[i] = i; });
        for (const size_t value : own) sum += value;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 4u * 200 * 45);
}

TEST(ThreadPool, a_loop_on_one_pool_may_start_loops_on_another) {
  ThreadPool outer(2), inner(2);
  std::atomic<size_t> ran{0};
  outer.run(20, [&](size_t) { inner.run(5, [&](size_t) { ++ran; }); });
  EXPECT_EQ(ran, 100u);
}

TEST(ThreadPool, workers_that_slept_wake_up) {
  ThreadPool pool(3);
  for (int loop = 0; loop < 3; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than workers spin
    std::atomic<size_t> ran{0};
    pool.run(50, [&](size_t) { ++ran; });
    EXPECT_EQ(ran, 50u);
  }
}

TEST(ThreadPool, pools_come_and_go_without_having_worked) {
  for (int i = 0; i < 100; ++i) ThreadPool pool(4);
}

TEST(ThreadPool, usable_threads_is_at_least_one_and_at_most_the_machine) {
  EXPECT_GE(usable_threads(), 1u);
  EXPECT_LE(usable_threads(), std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace cortiq
