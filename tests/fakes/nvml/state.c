/* Keeps the newest good version of the file that FAKE_NVML_STATE names. */
#include "fake_nvml.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_STATE_BYTES (16u << 20)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct json *good;
static struct stat good_stat;

void state_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void state_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static bool unchanged(const struct stat *now)
{
    return good && now->st_dev == good_stat.st_dev && now->st_ino == good_stat.st_ino &&
           now->st_size == good_stat.st_size && now->st_mtim.tv_sec == good_stat.st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == good_stat.st_mtim.tv_nsec;
}

static struct json *parse_file(int file, size_t size)
{
    char *text = malloc(size + 1);
    size_t have = 0;
    ssize_t got = 1;
    while (text && have < size && got > 0) {
        got = read(file, text + have, size - have);
        have += got > 0 ? (size_t)got : 0;
    }
    struct json *root = text ? json_parse(text, have) : NULL;
    free(text);
    if (root && root->type != JSON_OBJECT) {
        json_free(root);
        root = NULL;
    }
    return root;
}

/* A file half written gives no tree and leaves no mark, so the next call tries it again. */
static void reload(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    struct stat now;
    if (!path || stat(path, &now) != 0 || unchanged(&now))
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    struct json *fresh = NULL;
    if (fstat(file, &now) == 0 && now.st_size >= 0 && (size_t)now.st_size <= MAX_STATE_BYTES)
        fresh = parse_file(file, (size_t)now.st_size);
    close(file);
    if (!fresh)
        return;
    json_free(good);
    good = fresh;
    good_stat = now;
}

const struct json *state_root(void)
{
    reload();
    return good;
}

__attribute__((destructor)) static void forget(void)
{
    /* A call that still hangs in another thread re-reads the state: leave it alone while locked. */
    if (pthread_mutex_trylock(&mutex) != 0)
        return;
    json_free(good);
    good = NULL;
    pthread_mutex_unlock(&mutex);
}
