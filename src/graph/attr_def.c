/* graph/attr_def.c -- checks a value against an op's definition of the attr, with TensorFlow's messages. */
#include "graph/op.h"

static mr_status *wrong_kind(const mr_attr_def *def, const mr_attr *v)
{
    mr_str have = {0}, want = {0};
    mr_attr_type_name(&have, v->kind, v->is_list);
    mr_attr_type_name(&want, def->kind, def->is_list);
    mr_status *st;
    if (v->kind == MR_ATTR_NONE)
        st = mr_invalid("AttrValue missing value with expected type '%s'\n\t for attr '%s'",
                        mr_str_z(&want), def->name);
    else
        st = mr_invalid("AttrValue had value with type '%s' when '%s' expected\n\t for attr '%s'",
                        mr_str_z(&have), mr_str_z(&want), def->name);
    mr_str_deinit(&have);
    mr_str_deinit(&want);
    return st;
}

static mr_status *not_allowed(const mr_attr_def *def, const mr_attr *v)
{
    mr_str text = {0};
    mr_str_printf(&text, "Value for attr '%s' of ", def->name);
    if (v->kind == MR_ATTR_TYPE)
        mr_str_appendz(&text, mr_dtype_name(v->type));
    else
        mr_attr_print(&text, v);
    mr_str_appendz(&text, " is not in the list of allowed values: ");
    for (int i = 0; i < def->n_allowed; i++) {
        if (i)
            mr_str_appendz(&text, ", ");
        if (def->kind == MR_ATTR_TYPE)
            mr_str_appendz(&text, mr_dtype_name(def->types[i]));
        else
            mr_str_printf(&text, "\"%.*s\"", MR_SV_ARG(def->names[i]));
    }
    mr_status *st = mr_invalid("%s", mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

static mr_status *check_type(const mr_attr_def *def, int type)
{
    if (mr_dtype_is_ref(type) && mr_dtype_valid(mr_dtype_base(type)))
        return mr_invalid("AttrValue must not have reference type value of %s\n\t for attr '%s'",
                          mr_dtype_name(type), def->name);
    if (!mr_dtype_valid(type))
        return mr_invalid("AttrValue has invalid DataType enum: %d\n\t for attr '%s'", type,
                          def->name);
    for (int i = 0; i < def->n_allowed; i++)
        if (def->types[i] == type)
            return NULL;
    return def->n_allowed ? not_allowed(def, &(mr_attr){MR_ATTR_TYPE, .type = type}) : NULL;
}

static mr_status *check_string(const mr_attr_def *def, mr_sv s)
{
    for (int i = 0; i < def->n_allowed; i++)
        if (mr_sv_eq(def->names[i], s))
            return NULL;
    return def->n_allowed ? not_allowed(def, &(mr_attr){MR_ATTR_STRING, .s = s}) : NULL;
}

static mr_status *check_list(const mr_attr_def *def, const mr_attr *v)
{
    if (def->has_min && v->n < def->min)
        return mr_invalid("Length for attr '%s' of %d must be at least minimum %lld", def->name,
                          v->n, (long long)def->min);
    for (int i = 0; i < v->n; i++) {
        if (v->kind == MR_ATTR_TYPE)
            MR_TRY(check_type(def, v->types[i]));
        else if (v->kind == MR_ATTR_STRING)
            MR_TRY(check_string(def, v->ss[i]));
        else
            break;
    }
    return NULL;
}

mr_status *mr_attr_def_check(const mr_attr_def *def, const mr_attr *v)
{
    bool empty = v->is_list && v->n == 0; /* of any kind */
    if (v->is_list != def->is_list || (v->kind != def->kind && !empty))
        return wrong_kind(def, v);
    if (v->is_list)
        return check_list(def, v);
    if (v->kind == MR_ATTR_INT && def->has_min && v->i < def->min)
        return mr_invalid("Value for attr '%s' of %lld must be at least minimum %lld", def->name,
                          (long long)v->i, (long long)def->min);
    if (v->kind == MR_ATTR_TYPE)
        return check_type(def, v->type);
    return v->kind == MR_ATTR_STRING ? check_string(def, v->s) : NULL;
}
