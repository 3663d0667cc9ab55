/* Utilisation: the rates, and the driver's buffer behind them, recorded or generated from the wall clock. */
#include "fake_nvml.h"

#include <math.h>
#include <time.h>

#define DEFAULT_PERIOD_US 167000ull /* "between 1 second and 1/6 second", says NVML; data centre cards: 1/6 */
#define DEFAULT_KEEP 100u

u64 now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (u64)now.tv_sec * 1000000u + (u64)now.tv_nsec / 1000u;
}

static double overlap(double start, double end, double from, double to)
{
    double low = start > from ? start : from, high = end < to ? end : to;
    return high > low ? high - low : 0;
}

/* Busy seconds of a duty cycle between its origin and `at`. */
static double duty_until(double at, double period, double busy)
{
    double cycles = floor(at / period), rest = at - cycles * period;
    return cycles * busy + (rest < busy ? rest : busy);
}

/* Per cent times seconds of work in the window. */
static double work(const struct json *generator, double start, double end)
{
    double sum = 0;
    const struct json *list = json_get(generator, "busy");
    for (const struct json *span = list ? list->child : NULL; span; span = span->next)
        sum += json_real(json_at(span, 2), 100) *
               overlap(start, end, json_real(json_at(span, 0), 0), json_real(json_at(span, 1), 0));
    const struct json *duty = json_get(generator, "duty");
    double period = json_real(json_get(duty, "period_s"), 0), busy = json_real(json_get(duty, "busy_s"), 0);
    if (period > 0)
        sum += json_real(json_get(duty, "value"), 100) *
               (duty_until(end, period, busy) - duty_until(start, period, busy));
    return sum;
}

/* Times count from "origin_s", by default the epoch. */
unsigned int generated_value(const struct json *generator, u64 end_us, u64 period_us)
{
    double end = (double)end_us / 1e6 - json_real(json_get(generator, "origin_s"), 0);
    double length = (double)period_us / 1e6;
    double value = round(work(generator, end - length, end) / length);
    return value > 100 ? 100u : (unsigned int)value;
}

static u64 period_of(const struct json *generator)
{
    u64 period = json_unsigned(json_get(generator, "period_us"), DEFAULT_PERIOD_US);
    return period ? period : DEFAULT_PERIOD_US;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, utilization_t *rates)
{
    struct answer answer;
    nvmlReturn_t result = rates ? fake_begin(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    rates->gpu = (unsigned int)json_unsigned(json_get(answer.datum, "gpu"), 0);
    rates->memory = (unsigned int)json_unsigned(json_get(answer.datum, "memory"), 0);
    if (json_get(answer.datum, "duty") || json_get(answer.datum, "busy")) {
        u64 period = period_of(answer.datum);
        rates->gpu = generated_value(answer.datum, now_us() / period * period, period);
    }
    fake_end();
    return NVML_SUCCESS;
}

/* Where one answer of the buffer goes; without `out` the samples are only counted. */
struct sink {
    u64 since;
    unsigned int count, room;
    sample_t *out;
};

static void put_sample(struct sink *sink, u64 timestamp, unsigned int value)
{
    if (timestamp <= sink->since)
        return;
    if (sink->out && sink->count < sink->room)
        sink->out[sink->count] = (sample_t){.timestamp = timestamp, .value.unsigned64 = value};
    sink->count++;
}

static void put_generated(struct sink *sink, const struct json *generator)
{
    u64 period = period_of(generator), last = now_us() / period;
    u64 keep = json_unsigned(json_get(generator, "keep"), DEFAULT_KEEP);
    for (u64 step = last >= keep ? last - keep + 1 : 1; step <= last; step++)
        put_sample(sink, step * period, generated_value(generator, step * period, period));
}

static void put_samples(struct sink *sink, const struct json *samples)
{
    if (json_get(samples, "generate")) {
        put_generated(sink, json_get(samples, "generate"));
        return;
    }
    for (const struct json *sample = samples->child; sample; sample = sample->next)
        put_sample(sink, json_unsigned(json_get(sample, "timestamp_us"), 0),
                   (unsigned int)json_unsigned(json_get(sample, "value"), 0));
}

/* A sample that arrives between the question for the size and the one for the data is INSUFFICIENT_SIZE. */
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t handle, unsigned int type, u64 since, unsigned int *value_type,
                                  unsigned int *count, sample_t *samples)
{
    struct answer answer;
    if (!value_type || !count || (samples && *count == 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (type != SAMPLES_GPU_UTILIZATION)
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t result = fake_begin_member(__func__, handle, "samples", &answer);
    if (result != NVML_SUCCESS)
        return result;
    struct sink sink = {.since = since, .room = *count, .out = samples};
    put_samples(&sink, answer.datum);
    *value_type = VALUE_UINT;
    if (sink.count == 0)
        result = NVML_ERROR_NOT_FOUND;
    else if (samples && sink.count > sink.room)
        result = NVML_ERROR_INSUFFICIENT_SIZE;
    *count = sink.count;
    fake_end();
    return result;
}
