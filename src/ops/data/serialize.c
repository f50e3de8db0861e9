/* ops/data/serialize.c -- saves and restores the position of an iterator: SerializeIterator, DeserializeIterator;
 * and IteratorGetModelProto.
 *
 * The saved state is the number of elements given, and the random seeds with which the iterator started. Restoring
 * iterates over the dataset from the beginning: if that is reproducible (unchanged files, functions without state)
 * the next element is the one that would have followed. */
#include "base/memory.h"
#include "ops/data/iterator_resource.h"
#include "tensor/variant.h"

#define TYPES "output_types=[int64] output_shapes=[[]]"
#define IT "i = IteratorV2 shared_name=\"i\" container=\"\" " TYPES "; "
#define R "r = RangeDataset " TYPES ": 3, 9, 1; MakeIterator: r, i; "
#define N "IteratorGetNext " TYPES ": i; "

typedef struct place {
    mr_object base;
    int64_t count;
    MR_VEC(mr_seed_place) seeds;
} place;

static void place_free(mr_object *o)
{
    mr_vec_deinit(&((place *)o)->seeds);
    mr_free(o);
}

/* "count", then " seed seed2 given" for each source. */
static mr_status *place_encode(const mr_object *o, mr_variant_data *out)
{
    const place *p = (const place *)o;
    mr_str_printf(&out->metadata, "%lld", (long long)p->count);
    for (int i = 0; i < p->seeds.n; i++)
        mr_str_printf(&out->metadata, " %lld %lld %lld", (long long)p->seeds.p[i].seeds.seed,
                      (long long)p->seeds.p[i].seeds.seed2, (long long)p->seeds.p[i].given);
    return NULL;
}


static place *new_place(int64_t count)
{
    place *p = mr_new(place);
    mr_object_init(&p->base, &mr_iterator_place_type);
    p->count = count;
    return p;
}

static bool read_number(mr_sv *rest, int64_t *out)
{
    mr_sv word;
    return mr_sv_cut(rest, ' ', &word) && mr_sv_to_i64(word, out);
}

static mr_status *place_decode(const mr_variant_data *d, mr_object **out)
{
    mr_sv rest = mr_str_view(&d->metadata);
    int64_t n = -1;
    bool ok = read_number(&rest, &n) && n >= 0;
    place *p = new_place(n);
    while (ok && rest.p) {
        mr_seed_place s;
        ok = read_number(&rest, &s.seeds.seed) && read_number(&rest, &s.seeds.seed2) && read_number(&rest, &s.given) &&
             s.given >= 0;
        if (ok)
            mr_vec_push(&p->seeds, s);
    }
    *out = &p->base;
    if (ok)
        return NULL;
    mr_object_unref(&p->base);
    *out = NULL;
    return mr_error(MR_DATA_LOSS, "Invalid iterator state: expected a list of numbers");
}

const mr_object_type mr_iterator_place_type = {.name = "tensorflow::Iterator", .free = place_free, .encode = place_encode,
                                          .decode = place_decode};

static mr_status *open_turn(mr_run *r, mr_iterator_resource **i, mr_turn **t)
{
    MR_TRY(mr_run_resource(r, 0, &mr_iterator_resource_type, (mr_object **)i));
    mr_status *st = mr_iterator_resource_turn(*i, t);
    if (st) {
        mr_object_unref(&(*i)->base);
        mr_status_free(st);
        return mr_error(MR_FAILED_PRECONDITION, "Save() failed because the iterator has not been initialized. Ensure that you have run "
                                                "the initializer operation for this iterator before saving it.");
    }
    return NULL;
}

static mr_status *serialize_iterator(mr_run *r)
{
    mr_iterator_resource *i;
    mr_turn *t;
    mr_tensor *out;
    MR_TRY(open_turn(r, &i, &t));
    int n;
    place *p = new_place(mr_turn_count(t));
    const mr_seed_place *seeds = mr_turn_seeds(t, &n);
    for (int k = 0; k < n; k++)
        mr_vec_push(&p->seeds, seeds[k]);
    mr_turn_unref(t);
    mr_object_unref(&i->base);
    mr_status *st = mr_run_output(r, 0, 0, NULL, &out);
    if (st)
        mr_object_unref(&p->base);
    else
        *MR_DATA(mr_object *, out) = &p->base;
    return st;
}

static mr_status *serialize_shape(mr_infer *c)
{
    mr_infer_out_vector(c, 0, -1);
    c->out[0] = &mr_pshape_unknown; /* one element, or as many as an iterator needs */
    return NULL;
}

MR_OP(SerializeIterator,
    .doc     = "where an iterator is",
    .sig     = "resource_handle: resource -> serialized: variant",
    .attrs   = "external_state_policy: int = 0",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = serialize_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(serialize_iterator)),
    .examples = MR_EXAMPLES(IT R ": i -> shape()", IT ": i -> !FAILED_PRECONDITION has not been initialized"));

static mr_status *go_to(mr_iterator_resource *i, mr_turn *former, mr_data_env *env, const place *p)
{
    mr_turn *t = NULL;
    mr_turn_return(mr_turn_dataset(former), p->seeds.p, p->seeds.n);
    MR_TRY(mr_turn_new((mr_dataset *)(uintptr_t)mr_turn_dataset(former), env->later, 1, 1, &t));
    mr_status *st = mr_turn_skip(t, p->count, env->cancel);
    if (st) {
        mr_turn_close(t);
        mr_turn_unref(t);
        return st;
    }
    mr_iterator_resource_put(i, t);
    return NULL;
}

static mr_status *restore_iterator(mr_run *r, mr_data_env *env)
{
    mr_iterator_resource *i;
    mr_turn *t;
    const mr_tensor *v = mr_in(r, 1);
    mr_object *o = v->n == 1 ? *MR_DATA(mr_object *, v) : NULL;
    if (!o || o->type != &mr_iterator_place_type)
        return mr_invalid("serialized must be a result of SerializeIterator");
    MR_TRY(open_turn(r, &i, &t));
    mr_status *st = go_to(i, t, env, (place *)o);
    mr_turn_unref(t);
    mr_object_unref(&i->base);
    return st;
}

static void deserialize_iterator(mr_run *r) { mr_data_job_start(r, restore_iterator); }

MR_OP(DeserializeIterator,
    .doc     = "lets an iterator go on where another one over the same dataset was",
    .sig     = "resource_handle: resource, serialized: variant ->",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(deserialize_iterator)),
    .examples = MR_EXAMPLES(IT R N "s = SerializeIterator: i; " N ": i, s ->",
                            IT R "o = OptionalNone; : i, o -> !INVALID_ARGUMENT serialized must be"));

/* Nothing is tuned, so there is no model: its message is empty. */
static mr_status *model_proto(mr_run *r)
{
    mr_iterator_resource *i;
    mr_tensor *t;
    MR_TRY(mr_run_resource(r, 0, &mr_iterator_resource_type, (mr_object **)&i));
    mr_object_unref(&i->base);
    return mr_run_output(r, 0, 0, NULL, &t);
}

MR_OP(IteratorGetModelProto,
    .doc     = "the serialized model of an iterator's performance: empty",
    .sig     = "iterator: resource -> model_proto: string",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(model_proto)),
    .examples = MR_EXAMPLES(IT R ": i -> \"\""));
