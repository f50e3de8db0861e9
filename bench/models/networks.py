"""The networks, each a function of one side's layers (layers.py)."""


def mlp_logits(b, x):
    for n in (256, 128):
        x = b.relu(b.dense(x, n))
    return b.dense(x, 10)


def batch_norm_mlp_logits(b, x):
    for n in (512, 512, 256):
        x = b.dropout(b.relu(b.batch_norm(b.dense(x, n))), 0.3)
    return b.dense(x, 10)


def lenet_logits(b, x):
    for channels in (32, 64):
        x = b.max_pool(b.relu(b.conv(x, channels, 5, bias=True)), 2, 2)
    return b.dense(b.relu(b.dense(b.flatten(x), 512)), 10)


def resnet20_logits(b, x):
    x = b.relu(b.batch_norm(b.conv(x, 16, 3)))
    for channels, first_stride in ((16, 1), (32, 2), (64, 2)):
        for k in range(3):
            stride = first_stride if k == 0 else 1
            y = b.relu(b.batch_norm(b.conv(x, channels, 3, stride)))
            y = b.batch_norm(b.conv(y, channels, 3))
            shortcut = x if k or channels == 16 else b.batch_norm(b.conv(x, channels, 1, stride))
            x = b.relu(y + shortcut)
    return b.dense(b.global_average(x), 10)


def resnet50_logits(b, x):
    x = b.max_pool(b.relu(b.batch_norm(b.conv(x, 64, 7, 2))), 3, 2)
    for channels, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(blocks):
            stride = first_stride if k == 0 else 1
            y = b.relu(b.batch_norm(b.conv(x, channels, 1)))
            y = b.relu(b.batch_norm(b.conv(y, channels, 3, stride)))
            y = b.batch_norm(b.conv(y, 4 * channels, 1))
            shortcut = x if k else b.batch_norm(b.conv(x, 4 * channels, 1, stride))
            x = b.relu(y + shortcut)
    return b.dense(b.global_average(x), 1000)


def mobilenet_v2_logits(b, x):
    x = b.relu6(b.batch_norm(b.conv(x, 32, 3, 2)))
    c_in = 32
    for expansion, channels, blocks, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                                      (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(blocks):
            stride = first_stride if k == 0 else 1
            y = x
            if expansion > 1:
                y = b.relu6(b.batch_norm(b.conv(y, c_in * expansion, 1)))
            y = b.relu6(b.batch_norm(b.depthwise(y, stride)))
            y = b.batch_norm(b.conv(y, channels, 1))
            x = y + x if stride == 1 and c_in == channels else y
            c_in = channels
    return b.dense(b.global_average(b.relu6(b.batch_norm(b.conv(x, 1280, 1)))), 1000)


def dcgan_loss(b, z, _labels):
    y = b.relu(b.batch_norm(b.images(b.dense(z, 4 * 4 * 256, False), 4, 4, 256)))
    for channels in (128, 64):
        y = b.relu(b.batch_norm(b.conv_transpose(y, channels)))
    y = b.tanh(b.conv_transpose(y, 3))
    y = b.leaky_relu(b.conv(y, 64, 5, 2))
    y = b.leaky_relu(b.batch_norm(b.conv(y, 128, 5, 2)))
    return b.sigmoid_cross_entropy(b.dense(b.global_average(y), 1), 1.0)


def unet_loss(b, x, _labels):
    def two_convs(x, channels):
        return b.relu(b.conv(b.relu(b.conv(x, channels, 3, bias=True)), channels, 3, bias=True))

    skipped = []
    for channels in (16, 32, 64):
        x = two_convs(x, channels)
        skipped.append(x)
        x = b.max_pool(x, 2, 2)
    x = two_convs(x, 128)
    for channels in (64, 32, 16):
        x = two_convs(b.concat_channels(b.conv_transpose(x, channels), skipped.pop()), channels)
    return b.mean_square(b.conv(x, 1, 1, bias=True))


def transformer_block(b, x, heads, causal):
    x = x + b.attention(b.layer_norm(x), heads, causal)
    width = int(x.shape[-1])
    return x + b.dense(b.gelu(b.dense(b.layer_norm(x), 4 * width)), width)


def transformer_block_loss(b, x, _labels):
    return b.mean_square(transformer_block(b, x, 4, causal=False))


def gpt_loss(b, ids, labels):
    x = b.add_positions(b.embedding(ids, 8192, 256))
    for _ in range(4):
        x = transformer_block(b, x, 4, causal=True)
    return b.cross_entropy(b.dense(b.rows(b.layer_norm(x)), 8192, bias=False), labels)


def bert_small(b, ids):
    x = b.layer_norm(b.add_positions(b.embedding(ids, 30522, 512)))
    for _ in range(4):
        x = b.layer_norm(x + b.attention(x, 8, causal=False))
        x = b.layer_norm(x + b.dense(b.gelu(b.dense(x, 2048)), 512))
    return x


def bert_small_loss(b, ids, _labels):
    return b.mean_square(bert_small(b, ids))


def text_cnn_logits(b, ids):
    x = b.embedding(ids, 20000, 128)
    for _ in range(3):
        x = b.relu(b.conv1d(x, 128, 5))
    return b.dense(b.max_over_time(x), 5)


def classifier(logits):
    """The loss of a network that gives logits."""
    return lambda b, x, labels: b.cross_entropy(logits(b, x), labels)
